#!/usr/bin/env python3
"""Runs `weft bench` over the cases below and writes docs/results/bench.json and docs/results/bench.md.

A number in our docs has a command, a machine and a date: both files carry all three. A case that this build
refuses (exit 2) is named on stderr and left out; any other failure ends the run without touching the files.

usage: tools/bench.py [--weft build/weft] [--out docs/results] [--only SUBSTRING]
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

CASES = [
    "gemm-rs --ranks 2 --m 1024 --n 1024 --k 512 --link shm",
    "gemm-rs --ranks 2 --m 1024 --n 1024 --k 512 --link 10gbit,10us",
    "gemm-rs --ranks 4 --m 1024 --n 1024 --k 512 --link 10gbit,10us",
    "gemm-ar --ranks 2 --m 1024 --n 1024 --k 512 --link 10gbit,10us",
    "gemv-ar --ranks 2 --n 4096 --k 2048 --link 10gbit,10us",
    "gemm-a2a --ranks 2 --m 1024 --n 1024 --k 512 --link 10gbit,10us",
    "ag-gemm --ranks 2 --m 1024 --n 1024 --k 512 --link 10gbit,10us",
    "embedding-a2a --ranks 2 --tables 8 --rows 100000 --dim 64 --batch 1024 --pooling 32 --link 10gbit,10us",
    "rs --ranks 2 --m 1024 --n 1024 --link 10gbit,10us",
    "ar --ranks 2 --m 1024 --n 1024 --link 10gbit,10us",
]
COLUMNS = ["compute_us", "comm_us", "sequential_us", "decomposed_us", "mpi_us", "fused_us", "speedup", "hidden"]


def machine():
    model = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def measure(weft, case):
    """The JSON object of one case, or None where this build refuses it."""
    done = subprocess.run([weft, "bench", *case.split(), "--json"], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        print(f"left out: weft bench {case}: {done.stderr.strip()}", file=sys.stderr)
        return None
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): weft bench {case}\n{done.stderr.strip()}")
    return {"command": f"weft bench {case}", **json.loads(done.stdout)}


def cell(value):
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"


def table(report):
    lines = [
        "# weft bench",
        "",
        f"{report['date']}, commit {report['commit']}, {report['machine']}. Written by `make bench`; times in µs.",
        "",
        "| command | " + " | ".join(column.removesuffix("_us") for column in COLUMNS) + " |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    for row in report["cases"]:
        cells = " | ".join(cell(row.get(column)) for column in COLUMNS)
        lines.append(f"| `{row['command']}` | {cells} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default="build/weft")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/results"))
    parser.add_argument("--only", default="", help="only the cases whose command contains this")
    options = parser.parse_args()
    rows = [measure(options.weft, case) for case in CASES if options.only in case]
    report = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "cases": [row for row in rows if row],
    }
    if not report["cases"]:
        sys.exit("no case could be measured")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.out / "bench.md").write_text(table(report), encoding="utf-8")
    print(f"wrote {options.out}/bench.json and bench.md: {len(report['cases'])} cases")


if __name__ == "__main__":
    main()
