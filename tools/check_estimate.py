#!/usr/bin/env python3
"""Is the estimate right, and does `auto` take the fastest route? Calibrates, then measures on two ranks of one thread.

rows    the ops of issue 3's table: compute alone, sequential and the fused op, each beside its estimate; limit 20 %
sweep   about 40 shapes an op from 4 KB to 64 MB, thin and fat k: the route priced cheapest against the fastest one;
        limit 5 % a shape, geomean 1 %

Ends with 1 where a limit is passed. The machine should be quiet: every figure is a median of rounds in which all variants
take turns (bench/check_estimate.cc).

usage: tools/check_estimate.py [rows|sweep] [--build build] [--cluster FILE] [--link 10gbit,10us] [--op OP]
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

PARTS = ("compute", "sequential")


def rows():
    for op in ("gemm-rs", "gemm-ar"):
        for k in (32, 64, 128, 512, 1024):
            yield f"{op} --m 2048 --n 2048 --k {k}"
    for n in (256, 1024, 4096):
        yield f"gemv-ar --n {n} --k 64"
    for k in (64, 256):
        yield f"gemm-a2a --m 2048 --n 1024 --k {k}"
    for pooling in (1, 8):
        yield f"embedding-a2a --tables 4 --rows 100000 --dim 128 --batch 2048 --pooling {pooling}"
    yield "ag-gemm --m 2048 --n 128 --k 1024"


def sweep():
    """Sizes are those of what is sent: the output, or for ag-gemm the rows of x."""
    sides = (32, 64, 128, 256, 512, 1024, 2048, 4096)
    for op in ("gemm-rs", "gemm-ar"):
        for side in sides:
            for k in (16, 64, 256, 1024) if side < 4096 else (16, 128):
                yield f"{op} --m {side} --n {side} --k {k}"
        for m, n in ((16, 4096), (64, 8192), (4096, 64), (16384, 16), (8, 131072)):
            for k in (32, 512):
                yield f"{op} --m {m} --n {n} --k {k}"
    for n in (1024, 4096, 16384, 65536, 262144):
        for k in (16, 64, 256):
            for m in (1, 2, 4) if n < 65536 else (1,):
                yield f"gemv-ar --m {m} --n {n} --k {k}"
    for m, k in ((16, 64), (64, 64), (64, 256), (256, 256), (512, 512), (1024, 1024), (2048, 2048), (4096, 4096)):
        for n in (16, 64, 256, 1024, 2048) if m < 2048 else (16, 128):
            yield f"ag-gemm --m {m} --n {n} --k {k}"


def measure(options, ops):
    """One object an op, as it comes."""
    build = pathlib.Path(options.build)
    environment = dict(os.environ, WEFT_CLUSTER=options.cluster)
    if options.link:
        environment["WEFT_LINK"] = options.link
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
        listing.write("\n".join(ops) + "\n")
        listing.flush()
        command = [build / "weft", "run", "-n", "2", "--", build / "bench/check_estimate", listing.name]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode != 0:
            sys.exit(f"failed ({process.returncode}): {' '.join(map(str, command))}")


def routes_of(seen):
    return [v for v in seen["variants"] if v["name"] not in PARTS and not v["name"].startswith("comm:")]


def check_rows(options):
    print(f"{'':66}{'estimate/measured us':>44}\n{'op':66}{'compute':>22}{'sequential':>24}{'fused':>26}")
    worst = 1.0
    for seen in measure(options, chosen(options, rows())):
        fused = min(routes_of(seen), key=lambda v: v["estimate_us"])  # what auto takes
        cells = ""
        for v in [v for v in seen["variants"] if v["name"] in PARTS] + [fused]:
            ratio = v["estimate_us"] / v["measured_us"]
            worst = max(worst, ratio, 1 / ratio)
            cells += f"{v['estimate_us']:9.1f}/{v['measured_us']:8.1f} ={ratio:5.2f} "
        print(f"{seen['op']:66}{cells}{fused['name']}", flush=True)
    print(f"worst: off by {worst - 1:.0%}; limit 20 %")
    return worst <= 1.2


def check_sweep(options):
    print(f"{'op':44}{'auto':>9}{'fastest':>10}{'ratio':>7}   estimate/measured us of each route")
    ratios = []
    for seen in measure(options, chosen(options, sweep())):
        routes = routes_of(seen)
        auto = min(routes, key=lambda v: v["estimate_us"])
        best = min(routes, key=lambda v: v["measured_us"])
        ratio = auto["measured_us"] / best["measured_us"]
        ratios.append((ratio, seen["op"]))
        cells = "  ".join(f"{v['name']} {v['estimate_us']:.1f}/{v['measured_us']:.1f}" for v in routes)
        print(f"{seen['op']:44}{auto['name']:>9}{best['name']:>10}{ratio:7.3f}   {cells}", flush=True)
    geomean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
    over = sorted((r for r in ratios if r[0] > 1.05), reverse=True)
    print(f"{len(ratios)} shapes: geomean {geomean:.4f}, limit 1.01; {len(over)} over 1.05")
    for ratio, op in over[:5]:
        print(f"  {ratio:.3f}  {op}")
    return geomean <= 1.01 and not over


def chosen(options, ops):
    return [op for op in ops if not options.op or op.split()[0] == options.op]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rows", "sweep"], nargs="?", default="rows")
    parser.add_argument("--build", default="build")
    parser.add_argument("--cluster", help="a cluster to price on; else the machine is calibrated first")
    parser.add_argument("--link", help="pace the ranks' link, as 10gbit,10us")
    parser.add_argument("--op", help="only this op")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.cluster:
            options.cluster = f"{folder}/cluster.json"
            calibrate = [f"{options.build}/weft", "info", "--calibrate", "--save", options.cluster]
            subprocess.run(calibrate, check=True, stderr=subprocess.DEVNULL)
        held = check_rows(options) if options.what == "rows" else check_sweep(options)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
