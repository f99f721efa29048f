#!/usr/bin/env python3
"""Checks that what the documents say of the tree is so.

Every file of this repository that a document names, in backticks or as a link, exists; pages of docs/results have at most
700 words and the folder at most 0.6 MB; prose has lines of at most 160 columns. Prints `file:line: what` and exits 1.

usage: tools/check_docs.py [ROOT]
"""

import pathlib
import re
import subprocess
import sys

MOST_WORDS = 700
MOST_BYTES = 600_000
MOST_COLUMNS = 160
NAMED = re.compile(r"`([\w./-]+/[\w.-]+\.(?:h|cc|inc|py|sh|md|json|txt|cmake))`|\]\(([^)#\s]+)\)")
WORD = re.compile(r"[A-Za-z0-9][\w./%+:-]*")


def named_files(line):
    """The paths that a line names, without those of the web."""
    for ticks, link in NAMED.findall(line):
        path = ticks or link
        if "://" not in path and not path.startswith(("build/", "/")):
            yield path


def exists(root, page, path):
    """A path is written from the root, from the page's folder, or from weft/ in weft/README.md."""
    return any((folder / path).exists() for folder in (root, (root / page).parent))


def check_page(root, page):
    lines = (root / page).read_text(encoding="utf-8").splitlines()
    found = []
    code = False
    for number, line in enumerate(lines, 1):
        code ^= line.startswith("```")
        found += [(number, f"names {path}, which is not there") for path in named_files(line) if not exists(root, page, path)]
        if len(line) > MOST_COLUMNS and not code and not line.startswith(("|", "    ")):
            found.append((number, f"{len(line)} columns; wrap at 120"))
    if page.startswith("docs/results/"):
        words = len(WORD.findall("\n".join(lines)))
        if words > MOST_WORDS:
            found.append((1, f"{words} words; a page of results has at most {MOST_WORDS}"))
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=root, capture_output=True, text=True, check=True).stdout
    found = [(page, *what) for page in listed.split() if (root / page).exists() for what in check_page(root, page)]
    size = sum(path.stat().st_size for path in (root / "docs/results").rglob("*") if path.is_file())
    if size > MOST_BYTES:
        found.append(("docs/results", 1, f"{size:,} bytes; at most {MOST_BYTES:,}: logs and JSON do not belong here"))
    for page, number, what in found:
        print(f"{page}:{number}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
