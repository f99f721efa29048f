#!/usr/bin/env python3
"""Prints the tables of Unicode that weft/io/unicode reads.

letters      weft/io/unicode/unicode_tables.inc: the code points of \\p{L} and \\p{N}, as ranges
categories   weft/io/unicode/category_tables.inc: the general category of every code point, and lower cases
composition  weft/io/unicode/composition_tables.inc: canonical parts of characters and the order of marks, for NFC

From the package unicodedata2 where it is installed (16.0.0 has the Unicode that the tokenizers library of
tools/golden_tokens.py has), otherwise from Python's own unicodedata.

usage: tools/unicode_tables.py letters|categories|composition > weft/io/unicode/NAME.inc
"""

import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

POINTS = range(sys.maxunicode + 1)


def runs(value_of):
    """[first, last, value] of every run of code points that have the same value; None has no run."""
    result = []
    for point in POINTS:
        value = value_of(point)
        if result and result[-1][1] == point - 1 and result[-1][2] == value:
            result[-1][1] = point
        elif value is not None:
            result.append([point, point, value])
    return result


def table(kind, name, items, per_line):
    print(f"constexpr {kind} {name}[] = {{")
    for i in range(0, len(items), per_line):
        print("    " + ", ".join(items[i : i + per_line]) + ",")
    print("};")


def letters():
    for name, category in (("kLetters", "L"), ("kNumbers", "N")):
        ranges = runs(lambda point: True if unicodedata.category(chr(point))[0] == category else None)
        table("CodeRange", name, [f"{{0x{first:X}, 0x{last:X}}}" for first, last, _ in ranges], 6)


def lower_runs():
    """Every second letter of a stretch has a lower case one further on, or all have it at one distance."""
    result = []
    for point in POINTS:
        lower = chr(point).lower()
        if len(lower) != 1 or ord(lower) == point:
            continue
        offset = ord(lower) - point
        last = result[-1] if result else None
        if last and last[3] == offset and (point - last[1]) in (1, 2) and last[2] in (0, point - last[1]):
            last[1], last[2] = point, point - last[1]
        else:
            result.append([point, point, 0, offset])
    return result


def categories():
    known = lambda point: None if unicodedata.category(chr(point)) == "Cn" else unicodedata.category(chr(point))
    table("CategoryRange", "kCategories", [f"{{0x{a:X}, 0x{b:X}, {c}}}" for a, b, c in runs(known)], 5)
    table("CaseRange", "kLowercase", [f"{{0x{a:X}, 0x{b:X}, {step or 1}, {off}}}" for a, b, step, off in lower_runs()], 5)


def composition():
    items = []
    for point in POINTS:
        parts = unicodedata.decomposition(chr(point)).split()
        if not parts or parts[0].startswith("<"):
            continue
        composes = unicodedata.normalize("NFC", chr(point)) == chr(point) and len(parts) == 2
        items.append(f"{{0x{point:X}, 0x{parts[0]}, 0x{parts[1] if len(parts) == 2 else '0'}, {'true' if composes else 'false'}}}")
    table("Parts", "kParts", items, 4)
    ordered = runs(lambda point: unicodedata.combining(chr(point)) or None)
    table("ClassRange", "kClasses", [f"{{0x{a:X}, 0x{b:X}, {c}}}" for a, b, c in ordered], 6)


def main():
    makers = {"letters": letters, "categories": categories, "composition": composition}
    if len(sys.argv) != 2 or sys.argv[1] not in makers:
        sys.exit(__doc__)
    print(f"// Unicode {unicodedata.unidata_version}, made by tools/unicode_tables.py {sys.argv[1]}; first and last of every range.")
    makers[sys.argv[1]]()


if __name__ == "__main__":
    main()
