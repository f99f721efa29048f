#!/usr/bin/env python3
"""Simulates the T3 paper's 16 cases and writes the table and the picture of docs/results/t3.md.

usage: tools/page_t3.py [--build build]
"""

import pathlib
import shutil
import tempfile

from page import RESULTS, Page

# The rows of the page: one or two of the figures that `weft sim t3 --table` compares with the paper.
ROWS = {
    "ideal overlap, speedup, geomean / max": ("Ideal-GEMM-RS-Overlap, geomean", "Ideal-GEMM-RS-Overlap, max"),
    "T3-MCA, speedup, geomean / max": ("T3-MCA, geomean", "T3-MCA, max"),
    "plain T3, speedup, geomean / max": ("T3, geomean", "T3, max"),
    "DRAM traffic saved, geomean / max": ("DRAM traffic, fewer bytes, geomean", "DRAM traffic, fewer bytes, max"),
    "GEMM reads, times fewer": ("GEMM reads, times fewer",),
    "reduce-scatter reads, times fewer, TP 8 / 16": ("RS reads at TP 8, times fewer", "RS reads at TP 16, times fewer"),
    "reduce-scatter alone, faster with near-memory adds, TP 8 / 16": ("RS alone with NMC at TP 8", "RS alone with NMC at TP 16"),
}


def t3(weft):
    with tempfile.TemporaryDirectory() as folder:
        seen = weft.json(f"sim t3 --table --svg {folder}")
        shutil.copy(pathlib.Path(folder) / "t3_speedups.svg", RESULTS)
    weft.log[0]["command"] = "weft sim t3 --table"
    by_name = {row["what"]: row for row in seen["paper"]["rows"]}
    rows = []
    for what, names in ROWS.items():
        figures, cells = [by_name[name] for name in names], [what]
        for key in ("paper", "all", "fitted", "predicted"):
            percent = figures[0]["unit"] == "%"
            form = ".4g" if key == "paper" else ".1f" if percent else ".2f"
            cells.append(" / ".join(format(f[key], form) for f in figures) + (" %" if percent else ""))
        rows.append(cells)
    return ["figure", "paper:", "ours, 16 cases:", "Mega-GPT-2 (fitted):", "T-NLG (predicted):"], rows


if __name__ == "__main__":
    Page("t3", __doc__, {"t3": t3}).main()
