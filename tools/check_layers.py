#!/usr/bin/env python3
"""Checks the folder law of the design: which folder of weft/ may include which, and that no command includes another.

Prints `file:line: folder X may not include Y` for every breach and exits 1 if there is one. Also checks that a quoted
include is the path of a file there is, that headers say `#pragma once`, that CUDA headers stay where they belong, that files
are written in one place, and that no folder has more than 40 files and no line of code more than 120 columns; warns about
files too long to be one idea. Tests (*_test.cc, *_test.h) may include anything. check_types.py looks for types that are
defined twice.

usage: tools/check_layers.py [ROOT]
"""

import collections
import pathlib
import re
import sys

BELOW_WORLD = ["base", "io", "kernel", "mesh", "cluster", "plan", "collective", "reshard", "transport", "exec"]

# folder: the folders it may include, beside itself
MAY_INCLUDE = {
    "base": [],
    "io": ["base"],
    "kernel": ["base"],
    "mesh": ["base"],
    "cluster": ["base", "mesh"],
    "plan": ["base", "mesh", "cluster"],
    "collective": ["base", "mesh", "cluster", "plan"],
    "reshard": ["base", "mesh", "cluster", "plan"],
    "transport": ["base"],
    "exec": ["base", "mesh", "plan", "transport", "kernel"],
    "schedule": ["base", "mesh", "cluster"],
    "sim": ["base", "io", "mesh", "cluster", "plan", "collective", "reshard", "schedule"],
    "draw": ["base"],
    "virtual": ["base"],
    "world": BELOW_WORLD,
    "nn": ["base", "io", "kernel", "mesh", "plan", "collective", "world"],
    "pipeline": BELOW_WORLD + ["schedule", "world", "nn"],
    "llm": BELOW_WORLD + ["world", "nn"],
    "serve": BELOW_WORLD + ["world", "nn", "llm"],
    "study": BELOW_WORLD + ["schedule", "sim", "draw", "world", "nn", "pipeline", "llm", "virtual"],
}

SOURCES = {".h", ".cc", ".cu", ".cuh"}
HEADERS = {".h", ".cuh"}
MOST_LINES = 450
MOST_FILES = 40
MOST_COLUMNS = 120
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
RAW_STRING = re.compile(r'R"([^()\s\\]*)\(.*?\)\1"', re.DOTALL)
# Files are written by weft/base/os/new_file.h; settings of the kernel, which are no files, by these.
WRITES = re.compile(r'std::ofstream|\bfopen\([^)]*"[wa]')
WRITE_SETTINGS = {"weft/virtual/network.cc", "weft/virtual/quota.cc"}
CUDA = re.compile(r"^(cuda|cublas|cooperative_groups|nvml|nvtx|nccl|cub/|thrust/|cute/|cutlass/)")


def folder_of(path):
    """The folder of weft/ or cli/ that a path like weft/plan/plan.h is in; None for weft/weft.h and cli/table.h."""
    parts = pathlib.PurePosixPath(path).parts
    return parts[1] if len(parts) > 2 else None


def check_command(path, target):
    """What is wrong with an include of cli/ in cli/, or None."""
    source, included = folder_of(path), folder_of(target)
    if included is None or included == source:
        return None
    who = f"command {source}" if source else "what commands share"
    return f"{who} may not include command {included}; move what both need to weft/ or to cli/ itself"


def check_include(root, path, bracket, target):
    """What is wrong with one include of `path`, or None."""
    is_test = path.endswith(("_test.cc", "_test.h"))
    if bracket == "<":
        home = path.startswith("weft/exec/cuda/") or path.startswith("weft/transport/cuda_")
        if CUDA.match(target) and not home and not is_test:
            return f"CUDA header <{target}> outside weft/exec/cuda and weft/transport/cuda_*"
        return None
    if not (root / target).is_file():
        return f'no file "{target}"; an include is a path from the root of the repository'
    if path.startswith("cli/") and target.startswith("cli/") and not is_test:
        return check_command(path, target)
    if is_test or not path.startswith("weft/"):
        return None
    if not target.startswith("weft/"):
        return f"weft/ may not include {target}"
    source, included = folder_of(path), folder_of(target)
    if source is None or included == source or included in MAY_INCLUDE.get(source, []):
        return None
    return f"folder {source} may not include {included or 'the face, ' + target}"


def check_file(root, path):
    """Breaches and warnings of one file as (line, text) lists."""
    breaches, warnings = [], []
    folder = folder_of(path)
    if path.startswith("weft/") and folder is not None and folder not in MAY_INCLUDE:
        breaches.append((1, f"folder {folder} is not in the folder law; give it a row in tools/check_layers.py"))
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and (problem := check_include(root, path, *match.groups())):
            breaches.append((number, problem))
        if WRITES.search(line) and path not in WRITE_SETTINGS and not path.endswith(("_test.cc", "_test.h")):
            breaches.append((number, "writes a file by itself; weft/base/os/new_file.h replaces no device and leaves no half"))
    if pathlib.PurePosixPath(path).suffix in HEADERS and "#pragma once" not in (line.strip() for line in lines):
        breaches.append((1, "header without #pragma once"))
    if len(lines) > MOST_LINES:
        warnings.append((MOST_LINES + 1, f"{len(lines)} lines; more than {MOST_LINES} is more than one idea"))
    return breaches, warnings


def wide_lines(root, path):
    """Lines with too many columns, as (line, columns); the text of raw strings is data and not counted."""
    lines = RAW_STRING.sub(lambda m: "\n" * m.group().count("\n"), (root / path).read_text(encoding="utf-8")).splitlines()
    return [(i, len(line)) for i, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS and not INCLUDE.match(line)]


def other_paths(root):
    """Sources that the folder law leaves alone, and that are code all the same."""
    return sorted(p.relative_to(root).as_posix() for part in ["tests", "bench", "examples"] for p in (root / part).rglob("*") if p.suffix in SOURCES)


def crowded_folders(paths):
    """Breaches of folders with too many files, as (folder, text)."""
    counts = collections.Counter(str(pathlib.PurePosixPath(path).parent) for path in paths)
    return [(folder, f"{n} files; at most {MOST_FILES}, then it is two ideas") for folder, n in counts.items() if n > MOST_FILES]


def check_tree(root):
    """Prints what is wrong; returns the number of breaches and of files."""
    paths = sorted(p.relative_to(root).as_posix() for part in ["weft", "cli"] for p in (root / part).rglob("*") if p.suffix in SOURCES)
    found = [(folder, 1, text) for folder, text in crowded_folders(paths)]
    for path in paths:
        breaches, warnings = check_file(root, path)
        found += [(path, number, text) for number, text in breaches]
        for number, text in warnings:
            print(f"{path}:{number}: warning: {text}")
    for path in paths + other_paths(root):
        found += [(path, number, f"{n} columns; wrap at {MOST_COLUMNS}") for number, n in wide_lines(root, path)]
    for path, number, text in found:
        print(f"{path}:{number}: {text}")
    return len(found), len(paths)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    num_breaches, num_files = check_tree(root)
    if num_breaches:
        print(f"{num_breaches} breaches of the folder law in {num_files} files")
    return 1 if num_breaches or not num_files else 0


if __name__ == "__main__":
    sys.exit(main())
