#!/usr/bin/env python3
"""Measures ops and collectives between virtual hosts and writes the tables and the picture of docs/results/cluster.md.

Hosts are virtual (docs/cluster.md), so this needs root. Each table makes its own clusters.

usage: tools/page_cluster.py [--build build] [--only TABLE ...] [--quick]
"""

import re
import statistics

from page import MOST_HIDDEN, Page, hidden, json_of, ratio, spread

TWO, FOUR = "--hosts 2 --rate 1gbit --pin", "--hosts 4 --rate 250mbit --cpus 0.5"
RING = ("--mca", "coll_tuned_use_dynamic_rules=1", "--mca", "coll_tuned_allreduce_algorithm=4")
SHAPES = {"gemm-rs": "--m {0} --n {0}", "gemm-ar": "--m {0} --n {0}", "ag-gemm": "--m {1} --k {1}"}
COLLECTIVES = ("rs", "ar", "ag", "a2a", "bcast")
SIZES = ("1K:1M:4", "4M:16M:4", "64M:64M:4")


def on_axis(weft, ranks, op, side, ratios, rounds, mca=()):
    shape = SHAPES[op].format(side, side // 2)
    return weft.bench_on(ranks, f"{op} {shape} --axis --ratios {ratios}", rounds, mca)["points"]


def mpi_over_fused(runs):
    """Against the better of MPI's algorithms."""
    known = [p["mpi_us"] / p["fused_us"] for p in runs if p["mpi_us"]]
    return f"{min(known):.2f}" if known else "–"


def hosts(weft):
    rows = []
    for ranks, words, side, rounds in ((2, TWO, 2048, 11), (4, FOUR, 1024, 5)):
        with weft.hosts(words):
            for op in SHAPES:
                ways = [(), RING] if ranks > 2 and op != "ag-gemm" else [()]
                runs = [on_axis(weft, ranks, op, side, "0.5,1", rounds, mca) for mca in ways]
                for same in zip(*runs):
                    p = same[0]
                    rows.append([op, ranks, f"{p['compute_us'] / p['comm_us']:.2f}", mpi_over_fused(same), ratio(p["sequential_us"], p["fused_us"]), hidden(p)])
    return ["op", "hosts:", "compute : comm:", "MPI / fused:", "sequential / fused:", "hidden"], rows


def collective_cells(weft, words, ranks, rate, rounds):
    """The cells of one column: all collectives over all sizes, each against the better of MPI's algorithms."""
    of_line, of_mpi, small = [], [], "–"
    with weft.hosts(words):
        for op in COLLECTIVES:
            for sizes, times in zip(SIZES, rounds):
                ways = [(), RING] if ranks > 2 and op in ("rs", "ar") else [()]
                for same in zip(*(weft.bench_on(ranks, f"{op} --sizes {sizes}", times, mca)["sizes"] for mca in ways)):
                    ours, mpi = same[0], min((s["mpi_us"] for s in same if s["mpi_us"]), default=None)
                    of_line += [ours["busbw_gbps"] * 8e9 / rate] if ours["size_bytes"] >= 4 << 20 else []
                    of_mpi += [ours["time_us"] / mpi] if mpi and ours["size_bytes"] >= 1 << 20 else []
                    if op == "ar" and ours["size_bytes"] == 1024 and mpi:
                        small = f"{ours['time_us']:.1f} / {mpi:.1f} us"
        tls, ucx = (weft.bench_on(ranks, f"ar --sizes 1K:1K:4 --link {link}", rounds[0])["sizes"][0]["time_us"] for link in ("tls", "ucx,trusted"))
    return [spread(of_line, ".3f"), spread(of_mpi), small, f"{tls:.1f} / {ucx:.1f} us"]


def transport(weft):
    """Latency of a put and its signal of 1 KB, CPU time per byte, over both wires, and what a rank that waits takes of a core."""
    floor, idle = weft.program("wire_floor", None), weft.program("idle_wait", None)
    if floor is None or idle is None:
        raise RuntimeError("bench/wire_floor or bench/idle_wait cannot be built: this machine lacks OpenSSL")
    with weft.hosts(TWO) as made:
        first = made["hosts"][0]["address"]

        def seen(what, link):
            words = f"--device eth0 --what {what} --link {link}"
            return weft.pair(f"{floor} --serve 7100 {words}", f"{floor} --connect {first}:7100 {words}")

        def latency(link):
            return re.search(r"^\s*1024\s+([\d.]+)\s+[\d.]+$", seen("latency", link), re.M)[1]

        def cpu(link):
            """ns per byte of messages of 64 KB and more, and of a plain socket beside them."""
            moved = re.findall(r"^\s*(\d+|socket)\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+([\d.]+)$", seen("bandwidth", link), re.M)
            of = lambda wanted: statistics.median(float(both) for size, both in moved if wanted(size))
            return of(lambda size: size != "socket" and int(size) >= 1 << 16), of(lambda size: size == "socket")
        by_tls, by_ucx = latency("tls"), latency("ucx,trusted")
        (tls, plain), (ucx, _) = cpu("tls"), cpu("ucx,trusted")
        test = "env UCX_TLS=tcp,self ucx_perftest -t ucp_am_lat -s 1024 -n 2000 -w 20 -p 7200"
        theirs = re.findall(r"^\s*Final:\s+\d+\s+([\d.]+)", weft.pair(test, f"{test} {first}"), re.M)
        waits = [json_of(weft.on_hosts(2, [idle, "--json"]))["share_of_core"] for _ in range(1 if weft.quick else 3)]
    return [["latency of put and signal, 1 KB, tls / ucx", f"{by_tls} / {by_ucx} us" + (f" (ucx_perftest {theirs[-1]})" if theirs else ""), ""],
            ["CPU time of the transport, messages of 64 KB and more, tls / ucx / plain socket", f"{tls:.1f} / {ucx:.1f} / {plain:.1f} ns per byte", ""],
            ["a rank that waits", f"{100 * max(waits):.1f} % of a core", ""]]


def collectives(weft):
    two = collective_cells(weft, TWO, 2, 1e9, (101, 9, 5))
    four = collective_cells(weft, FOUR, 4, 250e6, (51, 3, 1))
    names = ["collectives from 4 MB, of the line's rate", "collectives from 1 MB, of MPI's time", "all-reduce of 1 KB, Weft / MPI", "all-reduce of 1 KB, tls / ucx"]
    return ["what", "two hosts", "four hosts"], [list(row) for row in zip(names, two, four)] + transport(weft)


def rates(weft):
    """hidden at 1 : 1 over link rates. Slow links get smaller matrices."""
    lines = {op: [] for op in SHAPES}
    for rate in (50, 100, 250, 500, 1000):
        with weft.hosts(f"--hosts 2 --rate {rate}mbit --pin"):
            for op, points in lines.items():
                measured = on_axis(weft, 2, op, 1024 if rate >= 250 else 512, "1", 3)
                points += [[rate, p["hidden"]] for p in measured if p["hidden"] is not None and p["hidden"] <= MOST_HIDDEN]
    weft.draw("cluster_rates.svg", {
        "chart": "line", "title": "hidden over link rates",
        "subtitle": "2 hosts, a core each, compute : communication 1 : 1; hidden = (sequential - fused) / (sequential - ideal)",
        "x": {"label": "link, Mbit/s", "kind": "log"}, "y": {"label": "hidden", "min": 0},
        "series": [{"name": op, "points": points} for op, points in lines.items()], "bands": [{"low": 1, "high": 1, "label": "all of it; points above 1.05 are not measurable and left out"}]})


if __name__ == "__main__":
    Page("cluster", __doc__, {"hosts": hosts, "collectives": collectives, "rates": rates}).main()
