#!/usr/bin/env python3
"""Measures what the heart of Weft promises and writes docs/results/heart.md and heart.json.

A number in our docs has a command, a machine and a date: both files carry all three. Times are medians or single runs
as the page says; the machine should be quiet. Ends without touching the files when a command fails.

usage: tools/bench.py [--build build] [--out docs/results]
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import xml.etree.ElementTree

OUTPUT = "--m 16384 --n 16384 --k 1024 --tile 128,128"
PLANS = [("gemm-rs", "ring"), ("gemm-rs", "direct"), ("gemm-ar", "ring"), ("gemm-ar", "two_shot"), ("gemm-ar", "one_shot"),
         ("gemm-a2a", "auto"), ("gemm-ag", "ring"), ("ag-gemm", "ring"), ("ag-gemm", "direct")]
MOST_MS = {64: 300, 1024: 5000}
# ag-gemm gathers: --m is one rank's rows there, so that the output still has 16384.
ROWS = {"ag-gemm": lambda ranks: 16384 // ranks}

OPS = ["gemm-rs --m 2048 --n 2048 --k 128", "gemm-ar --m 2048 --n 2048 --k 128", "gemm-a2a --m 2048 --n 1024 --k 64",
       "ag-gemm --m 1024 --n 128 --k 1024", "embedding-a2a --tables 4 --rows 100000 --dim 128 --batch 2048 --pooling 4",
       "rs --m 2048 --n 2048", "ar --m 2048 --n 2048"]


def machine():
    model = platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def output_of(*command, ok=(0,)):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in ok:
        sys.exit(f"failed ({done.returncode}): {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def plans(weft):
    rows = []
    for op, route in PLANS:
        row = {"op": op, "route": route}
        for ranks in MOST_MS:
            if route == "one_shot" and ranks > 64:
                continue
            shape = OUTPUT.split()
            shape[1] = str(ROWS.get(op, lambda _: 16384)(ranks))
            seen = json.loads(output_of(weft, "plan", op, "--ranks", str(ranks), *shape, "--route", route, "--json"))
            row[str(ranks)] = {"ms": seen["build_ms"] + seen["verify_ms"], "tiles": seen["tiles"], "ok": seen["ok"]}
        rows.append(row)
    return rows


def tests(build):
    """What the tests count and time, from their own output."""
    found = {}
    text = output_of(f"{build}/tests/mutants_test")
    made, refused, _, accepted, wrong = re.search(r"^all\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", text, re.M).groups()
    found["mutants"] = f"{made} made, {refused} refused, {accepted} accepted, {wrong} of these wrong"
    text = output_of(f"{build}/tests/schedule_test")
    found["schedules"] = next(line.strip() for line in text.splitlines() if "seeds," in line)
    found["schedules_s"] = int(re.search(r"Schedule\.NoOrder\w+ \((\d+) ms\)", text)[1]) / 1000
    text = output_of(f"{build}/tests/faults_test")
    found["faults"] = [line.strip() for line in text.splitlines() if line.startswith("measured")]
    text = output_of(f"{build}/tests/agreement_test")
    found["agreement_s"] = int(re.search(r"test suite ran\. \((\d+) ms total\)", text)[1]) / 1000
    page = pathlib.Path(build) / "op_test.xml"
    output_of(f"{build}/tests/op_test", f"--gtest_output=xml:{page}")
    for case in xml.etree.ElementTree.parse(page).getroot().iter("testcase"):
        for item in case.iter("property"):
            found[item.get("name")] = item.get("value")
    return found


def bench(weft):
    return [json.loads(output_of(weft, "bench", *op.split(), "--ranks", "2", "--threads", "1", "--rounds", "15", "--json"))
            for op in OPS]


def page(report):
    lines = [
        "# The heart, measured",
        "",
        f"{report['date']}, commit {report['commit']}, {report['machine']}. Written by `make bench` (tools/bench.py).",
        "",
        "## Build and proof of a 16384 x 16384 output in 128 x 128 tiles",
        "",
        f"`weft plan OP --ranks N {OUTPUT} --route R --json`, build_ms + verify_ms of one run. To hold: under 0.3 s at 64 ranks,",
        "under 5 s at 1024.",
        "",
        "| op | route | 64 ranks | 1024 ranks | tile-steps proved at 1024 |",
        "|---|---|---:|---:|---:|",
    ]
    for row in report["plans"]:
        cells = []
        for ranks, most in MOST_MS.items():
            seen = row.get(str(ranks))
            cells.append("not offered" if seen is None else f"{seen['ms']:,.1f} ms{'' if seen['ms'] < most and seen['ok'] else ' **(over)**'}")
        tiles = f"{row['1024']['tiles']:,}" if "1024" in row else "–"
        lines.append(f"| {row['op']} | {row['route']} | {cells[0]} | {cells[1]} | {tiles} |")
    t = report["tests"]
    lines += [
        "",
        "## What the tests count",
        "",
        "| what | command | seen |",
        "|---|---|---|",
        f"| broken plans refused, or still right | `build/tests/mutants_test` | {t['mutants']} |",
        f"| seeded schedules of the real executor | `build/tests/schedule_test` | {t['schedules']}, {t['schedules_s']:.0f} s, none changed a bit |",
        f"| producers x spaces x routes x ranks 1–8, threads and processes | `build/tests/agreement_test` | all agree, {t['agreement_s']:.0f} s |",
        f"| binding run-time counts (to hold: 20 µs) | `build/tests/op_test` | {float(t['bind_counts_us']):.2f} µs |",
        f"| a run of 4096 tiles that are all beyond the count | `build/tests/op_test` | {float(t['run_of_zero_rows_us']):.0f} µs |",
        "| allocations of a compiled op's later runs | `build/tests/op_test` | 0 |",
    ]
    for line in t["faults"]:
        lines.append(f"| a rank hurt in mid-run (to hold: 2 s; silent: the deadline) | `build/tests/faults_test` | {line.removeprefix('measured ')} |")
    lines += [
        "",
        "## A first look at speed",
        "",
        "`weft bench OP --ranks 2 --threads 1 --rounds 15`: two processes over shared memory, medians, results checked in float64. The next issue",
        "makes these fast and sets them beside oneDNN and MPI; here they show that fused runs stand close to compute alone.",
        "",
        "| op | shape | route | compute µs | collective µs | sequential µs | fused µs | speedup | A/A band | bytes sent |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]

    def number(value, form):
        return "–" if value is None else format(value, form)

    for b in report["bench"]:
        shape = " ".join(f"{k} {v}" for k, v in b["shape"].items() if not isinstance(v, (list, dict)))
        lines.append(f"| {b['op']} | {shape} | {b['route']} | {number(b['compute_us'], ',.0f')} | {number(b['comm_us'], ',.0f')} | "
                     f"{number(b['sequential_us'], ',.0f')} | {b['fused_us']:,.0f} | {number(b['speedup'], '.2f')} | "
                     f"{b['aa_band']:.3f} | {b['bytes_sent']:,} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="docs/results")
    options = parser.parse_args()
    weft = f"{options.build}/weft"
    report = {
        "date": datetime.date.today().isoformat(),
        "commit": output_of("git", "describe", "--always", "--dirty").strip(),
        "machine": machine(),
    }
    for name, part in (("plans", lambda: plans(weft)), ("tests", lambda: tests(options.build)), ("bench", lambda: bench(weft))):
        print(f"measuring {name} ...", file=sys.stderr)
        report[name] = part()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "heart.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (out / "heart.md").write_text(page(report), encoding="utf-8")
    print(page(report))


if __name__ == "__main__":
    main()
