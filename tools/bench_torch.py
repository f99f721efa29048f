#!/usr/bin/env python3
"""Weft's ops against F.linear and gloo, in one torchrun: every round runs all of them in turn, and one of them twice
(A/A), so that what differs by no more than the same thing does from itself is called no gain.

With --page FILE the table between its marks <!-- figures --> and <!-- end --> is written anew.

--shapes instead: 40 shapes of linear_all_reduce against the better of gloo and panels, by which a program overlaps gloo
by hand: the product of a part of the rows while the sum of the part before is under way.

usage: torchrun --standalone --nproc-per-node 2 tools/bench_torch.py [--rounds 11] [--quick | --shapes] [--json | --page FILE]
"""

import argparse
import datetime
import json
import pathlib
import statistics
import textwrap
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft
from page import between, commit, machine, table_text


def timed(call, repeats):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def contest(calls, rounds, repeats):
    """Median seconds of each call, the slowest rank's; every round runs all of them."""
    took = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(2):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            seconds = torch.tensor([timed(call, repeats)], dtype=torch.float64)
            dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
            took[name].append(seconds.item())
    return {name: statistics.median(times) for name, times in took.items()}


def calls_of(m, n, k, few):
    x, w = torch.randn(m, k), torch.randn(n, k)
    part = torch.empty(m // dist.get_world_size(), n)

    def gloo_all_reduce():
        y = F.linear(x, w)
        dist.all_reduce(y)
        return y

    def gloo_reduce_scatter():
        dist.reduce_scatter_tensor(part, F.linear(x, w))
        return part

    calls = {
        "product": lambda: F.linear(x, w),
        "gloo all_reduce": gloo_all_reduce,
        "weft all_reduce": lambda: weft.linear_all_reduce(x, w),
        "weft all_reduce again": lambda: weft.linear_all_reduce(x, w),
    }
    why = [weft.explain(weft.linear_all_reduce, x, w)]
    if not few:
        calls["gloo reduce_scatter"] = gloo_reduce_scatter
        calls["weft reduce_scatter"] = lambda: weft.linear_reduce_scatter(x, w)
        calls["weft reduce_scatter again"] = lambda: weft.linear_reduce_scatter(x, w)
        why.append(weft.explain(weft.linear_reduce_scatter, x, w))
    return calls, why


ROWS, COLUMNS, DEPTHS, PANELS = (1, 4, 16, 64, 256, 1024, 2048, 4096), 1024, (32, 128, 512, 2048, 4096), 4


def shape_calls(m, n, k):
    x, w = torch.randn(m, k), torch.randn(n, k)

    def gloo():
        y = F.linear(x, w)
        dist.all_reduce(y)
        return y

    def panels():
        y = torch.empty(m, n)
        works = []
        for rows, part in zip(x.chunk(PANELS), y.chunk(PANELS)):
            torch.mm(rows, w.t(), out=part)
            works.append(dist.all_reduce(part, async_op=True))
        for work in works:
            work.wait()
        return y

    calls = {"gloo": gloo, "weft": lambda: weft.linear_all_reduce(x, w), "again": lambda: weft.linear_all_reduce(x, w)}
    return calls | ({"panels": panels} if m >= PANELS else {})


def many_shapes(options):
    """One row per depth: Weft's time over the better of the others', for each number of rows."""
    ratios = {}
    with torch.no_grad():
        for k in DEPTHS:
            for m in ROWS:
                flops = 2 * m * COLUMNS * k
                took = contest(shape_calls(m, COLUMNS, k), options.rounds, repeats=max(1, min(100, int(5e8 / flops))))
                best = min(took[who] for who in ("gloo", "panels") if who in took)
                ratios[m, k] = took["weft"] / best, took["again"] / best
    if dist.get_rank() != 0:
        return
    if options.json:
        print(json.dumps([{"m": m, "n": COLUMNS, "k": k, "ratio": r, "again": a} for (m, k), (r, a) in ratios.items()]))
        return
    table = [[k, *(f"{ratios[m, k][0]:.2f}" for m in ROWS)] for k in DEPTHS]
    within = sum(ratio <= 1.03 for ratio, _ in ratios.values())
    body = "\n".join([f"{datetime.date.today()}, commit {commit()}, {machine()}, torch {torch.__version__}.", "",
                      table_text(["k", *(f"{m} rows:" for m in ROWS)], table), "",
                      f"{within} of {len(ratios)} shapes take at most 1.03 of the better one's time."])
    if options.page:
        options.page.write_text(between(options.page.read_text(), "<!-- shapes -->", body))
    else:
        print(body)


def new_shape():
    start = time.perf_counter()
    weft.linear_all_reduce(torch.ones(1024 + new_shape.count, 64), torch.ones(1024, 64))
    new_shape.count += 1
    return time.perf_counter() - start


new_shape.count = 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--quick", action="store_true", help="two shapes")
    parser.add_argument("--shapes", action="store_true", help="40 shapes against the better of gloo and panels")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", type=pathlib.Path)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    weft.init()
    if options.shapes:
        many_shapes(options)
        dist.barrier()
        return
    shapes = [(2048, 2048, k) for k in (128, 256, 512, 1024)] + [(1, 64, 16), (1, 1024, 256), (1, 4096, 1024)]
    rows = []
    with torch.no_grad():
        for m, n, k in shapes[3:5] if options.quick else shapes:
            calls, why = calls_of(m, n, k, few=m == 1)
            micro = contest(calls, options.rounds, repeats=200 if m == 1 and n * k < 1 << 20 else 20 if m == 1 else 1)
            rows.append({"m": m, "n": n, "k": k, "us": {name: s * 1e6 for name, s in micro.items()}, "why": why})
        fresh = statistics.median(new_shape() for _ in range(9))
    if dist.get_rank() == 0:
        report(rows, fresh, options)
    dist.barrier()


def figures(rows, fresh):
    """What the page says between its marks."""
    head = ["product", "all_reduce: gloo", "Weft", "again", "x", "reduce_scatter: gloo", "Weft", "again", "x"]
    table = []
    for row in rows:
        us = row["us"]
        cells = [f"({row['m']}, {row['k']}) x ({row['n']}, {row['k']})", f"{us['product'] / 1e3:.3g}"]
        for op in ("all_reduce", "reduce_scatter"):
            times = [us.get(f"{who} {op}{more}") for who, more in (("gloo", ""), ("weft", ""), ("weft", " again"))]
            cells += [f"{t / 1e3:.3g}" for t in times] + [f"{times[0] / times[1]:.2f}"] if None not in times else ["-"] * 4
        table.append(cells)
    ways = ", ".join(f"k {r['k']} {' and '.join(w.split(':')[0] for w in r['why'])}" for r in rows if r["m"] > 1)
    words = f"Ways taken at 2048 x 2048 (all_reduce and reduce_scatter): {ways}; {rows[0]['why'][0].split('; ')[1]}."
    return "\n".join([f"{datetime.date.today()}, commit {commit()}, {machine()}, torch {torch.__version__}. Milliseconds; x is against gloo.", "",
                      table_text(["(m, k) x (n, k)", *(f"{name}:" for name in head)], table), "", *textwrap.wrap(words, 118), "",
                      f"A shape that is new takes {fresh * 1e3:.0f} ms before it runs."])


def report(rows, fresh, options):
    if options.json:
        print(json.dumps({"rows": rows, "new_shape_ms": fresh * 1e3, "threads": torch.get_num_threads()}))
    elif options.page:
        options.page.write_text(between(options.page.read_text(), "<!-- figures -->", figures(rows, fresh)))
    else:
        print(figures(rows, fresh))


if __name__ == "__main__":
    main()
