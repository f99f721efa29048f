#!/usr/bin/env python3
"""Finds types that are defined twice: two structs, classes, unions or enums with one qualified name in different files.

The linker keeps one of the two and says nothing (the one-definition rule), and which one the program then uses depends on
what was inlined. Names are read with their namespaces and enclosing types. An anonymous namespace belongs to its folder,
since a folder is compiled as one translation unit; in tests/, where each program has files of its own, to its file. Types
inside functions, declarations without a body and programs of bench/ and examples/ are left out. Prints
`file:line: TYPE is also defined in file:line` for every double and exits 1 if there is one.

usage: tools/check_types.py [ROOT]
"""

import pathlib
import re
import sys

FOLDERS = ["weft", "cli", "tests"]
SUFFIXES = {".h", ".cc"}

# What carries no structure: comments, strings, characters, preprocessor lines (with those they continue on).
NOISE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | R"(?P<tag>[^()\s\\]*)\(.*?\)(?P=tag)" | "(?:\\.|[^"\\\n])*" | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:\\\n|[^\n])*""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
SPACE = re.compile(
    r"\bnamespace\s+(?P<namespace>[A-Za-z_][\w:]*)\s*\{"
    r"|\bnamespace\s*\{"
    r"|(?<!friend )\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\s*\([^()]*(?:\([^()]*\))?[^()]*\)\s*"
    r"|\[\[[^\]]*\]\]\s*)*(?P<type>[A-Za-z_]\w*(?:::\w+)*(?:\s*<[^;{}()]*?>)?)(?:\s+final)?\s*(?::(?!:)[^;{}()=]*(?:\([^()]*\))?[^;{}()=]*)?\{"
    r"|[{}]"
)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def types_of(text):
    """Qualified names of the types that a source text defines, with their lines; "(anonymous)" for such namespaces."""
    text = NOISE.sub(blank, text)
    found, scopes = [], []
    for match in SPACE.finditer(text):
        token = match.group()
        if token == "}":
            if scopes:
                scopes.pop()
        elif token == "{" or None in scopes:
            scopes.append(None)  # a body: what is defined in it is seen nowhere else
        elif match.group("namespace"):
            scopes.append(match.group("namespace"))
        elif match.group("type") is None:
            scopes.append("(anonymous)")
        else:
            name = re.sub(r"\s+", "", match.group("type"))
            scopes.append(name)
            found.append(("::".join(scopes), text.count("\n", 0, match.start()) + 1))
    return found


def unit_of(path):
    """The translation unit that a path's anonymous namespace is part of."""
    return path if path.startswith("tests/") else str(pathlib.PurePosixPath(path).parent)


def doubles(sources):
    """(first, second, name) for every type that is defined in two of the sources, a dict from path to text."""
    first, found = {}, []
    for path in sorted(sources):
        for name, line in types_of(sources[path]):
            key = (name, unit_of(path) if "(anonymous)" in name else "")
            before = first.setdefault(key, (path, line))
            if before[0] != path:
                found.append((before, (path, line), name))
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    paths = [p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in SUFFIXES]
    sources = {p.relative_to(root).as_posix(): p.read_text(encoding="utf-8") for p in paths}
    found = doubles(sources)
    for (path, line), (again, at), name in found:
        print(f"{again}:{at}: {name} is also defined in {path}:{line}; rename one of them")
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
