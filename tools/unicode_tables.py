#!/usr/bin/env python3
"""Writes weft/io/text/unicode_tables.inc: the code points of \\p{L} and \\p{N}, as ranges.

From the package unicodedata2 where it is installed (16.0.0 has the Unicode that the tokenizers library of tools/golden_tokens.py
has), otherwise from Python's own unicodedata.

usage: tools/unicode_tables.py > weft/io/text/unicode_tables.inc
"""

import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata


def ranges(category):
    """[first, last] of every run of code points whose general category begins with `category`."""
    result = []
    for point in range(sys.maxunicode + 1):
        if unicodedata.category(chr(point))[0] != category:
            continue
        if result and result[-1][1] == point - 1:
            result[-1][1] = point
        else:
            result.append([point, point])
    return result


def main():
    print(f"// Unicode {unicodedata.unidata_version}, made by tools/unicode_tables.py; first and last of every range.")
    for name, category in (("kLetters", "L"), ("kNumbers", "N")):
        items = [f"{{0x{first:X}, 0x{last:X}}}" for first, last in ranges(category)]
        print(f"constexpr CodeRange {name}[] = {{")
        for i in range(0, len(items), 6):
            print("    " + ", ".join(items[i : i + 6]) + ",")
        print("};")


if __name__ == "__main__":
    main()
