#!/usr/bin/env python3
"""Checks the folder law of the design: which folder of weft/ may include which.

Prints `file:line: folder X may not include Y` for every breach and exits 1 if there is one. Also checks
that a quoted include is the path of a file there is, that headers say `#pragma once`, and that CUDA headers
stay where they belong; warns about files too long to be one idea. Tests (*_test.cc, *_test.h) may include anything.

usage: tools/check_layers.py [ROOT]
"""

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
    "virtual": ["base", "cluster", "transport"],
    "world": BELOW_WORLD,
    "nn": ["base", "io", "kernel", "mesh", "plan", "collective", "world"],
    "pipeline": BELOW_WORLD + ["world", "nn"],
    "llm": BELOW_WORLD + ["world", "nn"],
    "serve": BELOW_WORLD + ["world", "nn", "llm"],
    "study": BELOW_WORLD + ["schedule", "sim", "draw", "world", "nn", "pipeline", "llm", "serve", "virtual"],
}

SOURCES = {".h", ".cc", ".cu", ".cuh"}
HEADERS = {".h", ".cuh"}
MOST_LINES = 450
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CUDA = re.compile(r"^(cuda|cublas|cooperative_groups|nvml|nvtx|nccl|cub/|thrust/|cute/|cutlass/)")


def folder_of(path):
    """The folder of weft/ that a path like weft/plan/plan.h is in; None for weft/weft.h, the face."""
    parts = pathlib.PurePosixPath(path).parts
    return parts[1] if len(parts) > 2 else None


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
    if is_test or not target.startswith("weft/"):
        return None
    source, included = folder_of(path), folder_of(target)
    if source is None or included == source or included in MAY_INCLUDE.get(source, []):
        return None
    return f"folder {source} may not include {included or 'the face, ' + target}"


def check_file(root, path):
    """Breaches and warnings of one file as (line, text) lists."""
    breaches, warnings = [], []
    folder = folder_of(path)
    if folder is not None and folder not in MAY_INCLUDE:
        breaches.append((1, f"folder {folder} is not in the folder law; give it a row in tools/check_layers.py"))
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and (problem := check_include(root, path, *match.groups())):
            breaches.append((number, problem))
    if pathlib.PurePosixPath(path).suffix in HEADERS and "#pragma once" not in (line.strip() for line in lines):
        breaches.append((1, "header without #pragma once"))
    if len(lines) > MOST_LINES:
        warnings.append((MOST_LINES + 1, f"{len(lines)} lines; more than {MOST_LINES} is more than one idea"))
    return breaches, warnings


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    paths = sorted(p.relative_to(root).as_posix() for p in (root / "weft").rglob("*") if p.suffix in SOURCES)
    num_breaches = 0
    for path in paths:
        breaches, warnings = check_file(root, path)
        for number, text in breaches:
            print(f"{path}:{number}: {text}")
        for number, text in warnings:
            print(f"{path}:{number}: warning: {text}")
        num_breaches += len(breaches)
    if num_breaches:
        print(f"{num_breaches} breaches of the folder law in {len(paths)} files")
    return 1 if num_breaches or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
