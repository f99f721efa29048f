#!/usr/bin/env python3
"""Measures one machine and writes the tables and the picture of docs/results/cpu.md. The machine should be quiet.

usage: tools/page_cpu.py [--build build] [--only TABLE ...] [--quick]
"""

import json

from page import RESULTS, Page, hidden, link_name, ratio, slashed

LINKS = ["10gbit,10us", "1gbit,10us"]
AXIS_OPS = {"gemm-rs": "--m 2048 --n 1024", "gemm-ar": "--m 2048 --n 1024", "ag-gemm": "--m 1024 --k 1024"}


def over(seen, a, b):
    return None if not seen.get(a) or not seen.get(b) else seen[a] / seen[b]


def band(all_seen):
    return f"{max(s['aa_band'] for s in all_seen):.3f}"


def products(weft):
    rows = []
    for op in ("gemm-rs", "gemm-ar"):
        seen = [weft.bench(f"{op} --m 2048 --n 2048 --k {k}") for k in (32, 64, 128)]
        shape = "2048 x 2048, k 32 / 64 / 128"
        rows += [[f"{op}, fused / compute", shape, slashed(over(s, "fused_us", "compute_us") for s in seen), band(seen)],
                 [f"{op}, sequential / fused", "the same", slashed(over(s, "sequential_us", "fused_us") for s in seen), band(seen)],
                 [f"{op}, oneDNN + MPI / fused", "k 128", ratio(seen[2]["mpi_us"], seen[2]["fused_us"]), band(seen[2:])]]
    return rows


def small_and_sparse(weft):
    paired = [weft.bench(f"gemv-ar --n {n} --k 64 --paired 2000", 15)["paired"] for n in (256, 1024, 4096)]
    rows = [["gemv-ar, what the all-reduce adds, of MPI_Allreduce's time", "n 256 / 1024 / 4096, k 64", slashed(p["ratio"] for p in paired), band(paired)]]
    seen = weft.bench("gemm-a2a --m 2048 --n 1024 --k 64")
    rows.append(["gemm-a2a, sequential / fused", "2048 x 1024, k 64", ratio(seen["sequential_us"], seen["fused_us"]), band([seen])])
    for which, name in (("one-hot", "one-hot tables"), ("all", "all tables")):
        words = f"embedding-a2a --workload dlrm-v2 --rows 100000 --batch 2048 --tables-of {which}"
        both = [weft.bench(f"{words} --zipf {zipf}") for zipf in (0, 1.05)]
        rows.append(["embedding-a2a, sequential / fused", f"DLRM-v2, {name}, uniform / Zipf", slashed(over(s, "sequential_us", "fused_us") for s in both), band(both)])
    seen = weft.bench("ag-gemm --m 2048 --n 128 --k 1024")
    rows.append(["ag-gemm, fused / compute", "2048 x 128, k 1024", ratio(seen["fused_us"], seen["compute_us"]), band([seen])])
    return rows


def window(weft):
    words = "--m 2048 --n 2048 --k 128 --owners 4 --threads {} --rounds " + ("11" if weft.quick else "41") + " --json"
    printed = [weft.program("window_gain", words.format(threads)) for threads in (1, 2)]
    if None in printed:
        return []
    seen = [json.loads(text) for text in printed]
    return [["unmodified sgemm through a window, against sgemm + copy", "4 owners, 1 / 2 BLAS threads", slashed(s["gain"] for s in seen), band(seen)]]


def cpu(weft):
    weft.calibrate()
    return ["figure", "shape", "seen:", "A/A band:"], products(weft) + small_and_sparse(weft) + window(weft)


def paced(weft):
    weft.calibrate()
    rows = []
    for link in LINKS:
        for op, shape in AXIS_OPS.items():
            for p in weft.bench(f"{op} {shape} --axis --ratios 0.5,1 --link {link}", 15, mpi=False)["points"]:
                rows.append([op, link_name(link), f"{p['compute_us'] / p['comm_us']:.2f}", ratio(p["sequential_us"], p["fused_us"]),
                             ratio(p["decomposed_us"], p["fused_us"]), hidden(p)])
    return ["op", "link", "compute : comm:", "sequential / fused:", "panels / fused:", "hidden"], rows


def picture(weft):
    weft.calibrate()
    weft.bench(f"gemm-ar --axis --link {LINKS[0]} --svg {RESULTS / 'axis_gemm-ar_10gbit.svg'}", 11, mpi=False)


if __name__ == "__main__":
    Page("cpu", __doc__, {"cpu": cpu, "paced": paced, "picture": picture}).main()
