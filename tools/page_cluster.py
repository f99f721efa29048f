#!/usr/bin/env python3
"""Runs every line of the bars over several hosts and writes docs/results/cluster.md, cluster.json and SVGs.

Hosts are virtual ones (docs/cluster.md), so this needs root. Each section makes its own cluster, and is kept in cluster.json
as soon as it is measured: run again with --only SECTION, or with --missing to measure what is not there yet.

usage: tools/page_cluster.py [--build build] [--out docs/results] [--only SECTION ...] [--missing] [--quick] [--list] [--write]
                             [--name page] [--lock FILE]
"""

import pathlib
import re

from page import Page, number, over, row, shape_of
from page_chart import line_chart
from page_hosts import RING, Hosts, json_of

TWO, FOUR = "--hosts 2 --rate 1gbit --pin", "--hosts 4 --rate 250mbit --cpus 0.5"
FUSED = ("gemm-rs", "gemm-ar", "ag-gemm")
COLLECTIVES = ("rs", "ar", "ag", "a2a", "bcast")
SIZES = ("1K:1M:4", "4M:16M:4", "64M:64M:4")
PAYLOAD = 1448 / 1514  # of a frame; the links' buckets count frames


def ideal_of(p):
    return max(p["compute_us"] + (p["comm_cpu_us"] or 0), p["comm_us"])


def mpi_bar(p):
    least, most = sorted((p["compute_us"], p["comm_us"]))
    return 0.85 * (1 + least / most)


def hidden_at(p, ns_a_byte):
    """hidden, were comm_cpu so much for every byte a rank sends: what the bar for transport allows, not what was measured."""
    ideal = max(p["compute_us"] + p["bytes_sent"] / p["ranks"] * ns_a_byte * 1e-3, p["comm_us"])
    return over(p["sequential_us"] - p["fused_us"], p["sequential_us"] - ideal)


def fused_bars(p, where, hidden_bar=0.9):
    """The bars of one shape. Beside each: the most that could be seen, were fused to take just the ideal time."""
    name = f"{p['op']} {shape_of(p)}, {where}, compute : comm {p['compute_us'] / p['comm_us']:.2f}"
    ideal = ideal_of(p)
    cpu = f"comm_cpu {(p['comm_cpu_us'] or 0) / p['comm_us']:.2f} of comm; fused / ideal {p['fused_us'] / ideal:.3f}; hidden {number(hidden_at(p, 1.3))} with comm_cpu at 1.3 ns a byte"
    if p["hidden"] is None:
        cpu += "; sequential is within 5 % of the ideal: nothing to hide"
    elif p["hidden"] > 1.05:
        cpu += "; more than all: compute or comm_cpu came out too long in this run"
    rows = [row(f"{name}: hidden", hidden_bar, ">=", p["hidden"], p, cpu)]
    if p["comm_us"] > p["compute_us"] + (p["comm_cpu_us"] or 0):
        rows.append(row(f"{name}: fused / comm, link-bound", 1.10, "<=", p["fused_us"] / p["comm_us"], p))
    if p["mpi_us"]:
        bar, most = mpi_bar(p), p["mpi_us"] / ideal
        note = f"at most {most:.2f} at the ideal" + ("" if most >= bar else ": the bar is out of reach")
        rows.append(row(f"{name}: MPI / fused", round(bar, 3), ">=", p["mpi_us"] / p["fused_us"], p, note))
    return rows


def on_axis(hosts, ranks, op, ratios, rounds, where, mca=()):
    seen = hosts.bench(ranks, f"{op} --axis --ratios {ratios}", rounds, mca)
    for point in seen["points"]:
        point["link"] = where
    return seen["points"]


def two_hosts(hosts):
    points = []
    with hosts.up(TWO):
        for op in FUSED:
            points += on_axis(hosts, 2, op, "0.5,1,2", 11, "2 hosts, 1 Gbit/s")
    return [bar for p in points for bar in fused_bars(p, "2 hosts")], points


def four_hosts_with(ranks):
    """MPI with its own choice of algorithm and, where it sums, with its ring: the better of the two counts."""
    shapes = {"gemm-rs": "--m 1024 --n 1024", "gemm-ar": "--m 1024 --n 1024", "ag-gemm": "--m 512 --k 512"}
    where = f"4 hosts, {ranks} ranks, 250 Mbit/s"

    def section(hosts):
        rows, points = [], []
        with hosts.up(FOUR):
            for op, shape in shapes.items():
                rounds = 5 if ranks == 4 else 3
                own = on_axis(hosts, ranks, f"{op} {shape}", "0.5,1,2", rounds, where)
                rings = on_axis(hosts, ranks, f"{op} {shape}", "0.5,1,2", rounds, where + ", MPI's ring", RING) if op != "ag-gemm" else []
                points += own + rings
                for at, p in enumerate(own):
                    both = [q for q in (p, *rings[at:at + 1]) if q["mpi_us"]]
                    best = min(both, key=lambda q: q["mpi_us"] / q["fused_us"] / mpi_bar(q), default=p)
                    rows += fused_bars(p, f"4 hosts, {ranks} ranks")[:-1] + fused_bars(best, best["link"])[-1:]
        return rows, points
    return section


def embedding(hosts):
    shape = "embedding-a2a --tables 8 --rows 100000 --dim 64 --batch 4096"
    with hosts.up(TWO):
        points = on_axis(hosts, 2, shape, "0.5,1,2", 11, "2 hosts, 1 Gbit/s")
    rows = []
    for p in points:
        name = f"embedding-a2a {shape_of(p)}, 2 hosts, compute : comm {p['compute_us'] / p['comm_us']:.2f}"
        if p["wanted"] == 1:
            rows.append(row(f"{name}: fused / (lookup, then MPI's all-to-all)", 0.69, "<=", over(p["fused_us"], p["mpi_us"]), p,
                            f"at least {ideal_of(p) / p['mpi_us']:.2f} at the ideal"))
            rows += fused_bars(p, "2 hosts", 0.85)[:1]
    return rows, points


def best_of_mpi(runs):
    """One run's sizes with the better MPI time of all runs; times of ours stay in their own run beside it."""
    out = []
    for same in zip(*(run["sizes"] for run in runs)):
        known = [s for s in same if s["mpi_us"]]
        out.append(min(known, key=lambda s: s["mpi_us"] / s["time_us"]) if known else same[0])
    return out


def size_bars(op, sizes, hosts_name, line_rate, command):
    rows = []
    for s in sizes:
        size = f"{s['size_bytes'] // 1024} KB" if s["size_bytes"] < 1 << 20 else f"{s['size_bytes'] >> 20} MB"
        seen = {"aa_band": s["aa_band"], "command": command, "predicted_us": s["predicted_us"], "fused_us": s["time_us"]}
        note = f"{s['route']}, {number(s['time_us'], ',.1f')} µs; MPI {number(s['mpi_us'], ',.1f')}"
        rows.append(row(f"{op}, {hosts_name}, {size}: ours / MPI's best", 1.1, "<=", over(s["time_us"], s["mpi_us"]), seen, note))
        if s["size_bytes"] >= 4 << 20:
            rows.append(row(f"{op}, {hosts_name}, {size}: of line rate", 0.9, ">=", s["busbw_gbps"] * 1e9 / line_rate, seen,
                            f"{s['route']}; at most {PAYLOAD:.3f}, what frames carry"))
    return rows


def collectives_on(words, ranks, rate, rounds):
    def section(hosts):
        rows, all_seen = [], []
        with hosts.up(words):
            for op in COLLECTIVES:
                for sizes, times in zip(SIZES, rounds):
                    ways = [(), RING] if ranks > 2 and op in ("rs", "ar") else [()]
                    runs = [hosts.bench(ranks, f"{op} --sizes {sizes}", times, mca) for mca in ways]
                    all_seen += runs
                    rows += size_bars(op, best_of_mpi(runs), f"{ranks} hosts", rate / 8, runs[0]["command"])
        return rows, all_seen
    return section


def transport_cpu(hosts):
    floor, idle = hosts.program("wire_floor"), hosts.program("idle_wait")
    with hosts.up(TWO) as made:
        first = made["hosts"][0]["address"]
        text = hosts.pair(f"{floor} --serve 7100 --device eth0 --what bandwidth",
                          f"{floor} --connect {first}:7100 --device eth0 --what bandwidth")
        waits = [json_of(hosts.run(2, [idle, "--json"])) for _ in range(1 if hosts.quick else 3)]
        alone = hosts.bench(2, "gemm-rs --m 2048 --n 2048 --k 128", 5)
    by_size = {}
    for name, rate, send, receive, both in re.findall(r"^\s*(socket|\d+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)$", text, re.M):
        by_size.setdefault(name, []).append((float(both), float(send), float(receive), float(rate)))
    command = {"command": f"{hosts.made}; bench/wire_floor --serve 7100, --connect HOST:7100"}
    plain = sorted(by_size["socket"])[len(by_size["socket"]) // 2]
    rows = []
    for name, times in by_size.items():
        both, send, receive, rate = sorted(times)[len(times) // 2]
        if name != "socket":
            rows.append(row(f"CPU of transport, messages of {int(name) >> 10} KB: ns a byte, send and receive", 1.3, "<=", both, command,
                            f"send {send:.2f}, receive {receive:.2f}, {rate:.1f} MB/s; a plain socket {plain[0]:.2f}; "
                            "what processes are charged with: interrupts are not in it"))
    sent = alone["bytes_sent"] / 2
    rows.append(row("CPU of transport by what is left of the core (comm_cpu): ns a byte, send and receive", 1.3, "<=",
                    alone["comm_cpu_us"] * 1e3 / sent, {"command": alone["command"]},
                    f"comm_cpu {alone['comm_cpu_us']:,.0f} µs for {sent / 1e6:.2f} MB sent and as much received on one core; interrupts are in it"))
    worst = max(w["share_of_core"] for w in waits)
    rows.append(row("a rank that waits 3 s for another: share of a core", 0.03, "<=", worst,
                    {"command": f"{hosts.made}; weft cluster run -n 2 -- bench/idle_wait"}, f"the worst of {len(waits)} runs"))
    return rows, [alone], ["```", text.rstrip(), "```", ""]


def rates(hosts):
    """hidden at 1 : 1 over link rates. Slow links get smaller matrices; k or n is what makes it 1 : 1."""
    names = {50: "50mbit", 100: "100mbit", 250: "250mbit", 500: "500mbit", 1000: "1gbit"}
    shapes = {"gemm-rs": "--m {0} --n {0}", "gemm-ar": "--m {0} --n {0}", "ag-gemm": "--m {1} --k {1}"}
    points, lines = [], {op: [] for op in shapes}
    for rate, name in names.items():
        with hosts.up(f"--hosts 2 --rate {name} --pin"):
            for op, shape in shapes.items():
                side = 1024 if rate >= 250 else 512
                for p in on_axis(hosts, 2, f"{op} {shape.format(side, side // 2)}", "1", 3, f"2 hosts, {name}"):
                    points.append(p)
                    if p["hidden"] is not None:
                        lines[op].append((rate, p["hidden"]))
    chart = line_chart("hidden over link rates", "2 hosts, a core each, compute : communication 1 : 1; hidden = (sequential - fused) / (sequential - ideal)",
                       "link, Mbit/s", "hidden", {op: at for op, at in lines.items() if at}, {r: str(r) for r in names}, (0.9, "to reach: 0.9"))
    (hosts.out / "cluster_rates.svg").write_text(chart, encoding="utf-8")
    points[-1]["svg"] = "cluster_rates.svg"
    return [row(f"{p['op']}, {p['link']}, 1 : 1: hidden", 0.9, ">=", p["hidden"], p,
                f"comm_cpu {(p['comm_cpu_us'] or 0) / p['comm_us']:.2f} of comm") for p in points], points


def axis(hosts):
    all_seen = []
    ops = {"gemm-rs": "", "gemm-ar": "", "ag-gemm": "", "gemm-a2a": "", "embedding-a2a": " --rows 100000 --batch 4096"}
    with hosts.up(TWO):
        for op, shape in ops.items():
            svg = f"cluster_axis_{op}.svg"
            seen = hosts.bench(2, f"{op}{shape} --axis --svg {hosts.out / svg}", 3)
            for p in seen["points"]:
                p["link"] = "2 hosts, 1 Gbit/s"
            all_seen += seen["points"] + [{"op": op, "svg": svg, "command": seen["command"]}]
    return [], all_seen


def latency(hosts):
    floor = hosts.program("wire_floor")
    with hosts.up(TWO) as made:
        first = made["hosts"][0]["address"]
        ours = hosts.pair(f"{floor} --serve 7100 --device eth0 --what latency", f"{floor} --connect {first}:7100 --device eth0 --what latency")
        theirs = {}
        for size in (8, 64, 1024, 4096, 16 << 10, 64 << 10, 256 << 10, 1 << 20):
            test = f"env UCX_TLS=tcp,self ucx_perftest -t ucp_am_lat -s {size} -n {2000 if size < 65536 else 40} -w 20"
            text = hosts.pair(f"{test} -p 7200", f"{test} -p 7200 {first}")
            found = re.findall(r"^\s*Final:\s+\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", text, re.M)
            theirs[size] = float(found[-1][0]) if found else None
    lines = ["Half a round trip, µs. Ours: a put and its signal, packed into staging, landed and counted; spinning: both ends call progress() in a loop;",
             "asleep: both sleep, and their wires' threads do the work. ucx_perftest spins. `bench/wire_floor --what latency`; `UCX_TLS=tcp,self ucx_perftest -t ucp_am_lat -s SIZE`.", "",
             "| bytes | ours, spinning | ours, asleep | ucx_perftest, median |", "|---:|---:|---:|---:|"]
    for size, spinning, asleep in re.findall(r"^\s*(\d+)\s+([\d.]+)\s+([\d.]+)$", ours, re.M):
        lines.append(f"| {int(size):,} | {spinning} | {asleep} | {number(theirs.get(int(size)), '.1f')} |")
    return [], [], [*lines, ""]


def ops_on(words, ranks):
    """Every op once, with all that a benchmark prints."""
    shapes = ["gemm-rs --m 1024 --n 1024 --k 256", "gemm-ar --m 1024 --n 1024 --k 256", "gemm-a2a --m 1024 --n 1024 --k 256",
              "gemm-ag --m 512 --n 1024 --k 256", "gemm-bcast --m 512 --n 1024 --k 256", "ag-gemm --m 512 --n 256 --k 1024",
              "gemv-ar --n 4096 --k 2048", "gemv-rs --n 4096 --k 2048 --m 2", "embedding-a2a --rows 100000 --batch 2048", "copy-ar --m 1024 --n 1024",
              *(f"{op} --m 1024 --n 1024" for op in COLLECTIVES)]

    def section(hosts):
        all_seen = []
        with hosts.up(words):
            for shape in shapes:
                seen = hosts.bench(ranks, shape, 5)
                seen["link"] = f"{ranks} hosts"
                all_seen.append(seen)
        return [row(f"{s['op']}, {s['link']}: largest error, of the largest value", 1e-4, "<=", s["max_rel_err"], {"command": s["command"]})
                for s in all_seen], all_seen
    return section


SECTIONS = {
    "two-hosts": two_hosts, "four-hosts": four_hosts_with(4), "four-hosts-8-ranks": four_hosts_with(8), "embedding": embedding,
    "collectives-two-hosts": collectives_on(TWO, 2, 1e9, (101, 9, 5)), "collectives-four-hosts": collectives_on(FOUR, 4, 250e6, (51, 3, 1)),
    "cpu": transport_cpu, "rates": rates, "axis": axis, "latency": latency, "ops-two-hosts": ops_on(TWO, 2), "ops-four-hosts": ops_on(FOUR, 4),
}


def head(report):
    why = pathlib.Path(__file__).parent.parent / "docs/results/cluster-why.md"
    return ["# Several hosts: what must hold, measured", "",
            f"{report['machine']}. Virtual hosts on one machine (../cluster.md); written by `tools/page_cluster.py`, needs root. Every number has its command, its section a date "
            "and commit. Ratios of medians of things timed in turn in one run; a bar holds within the A/A band of its cell.", "",
            "comm_cpu, what the collective costs the core it shares with the product, is measured by what it leaves of the core to a thread of the lowest priority that soaks up the rest "
            "(cli/bench/soaker.h): over a wire most of it is the kernel's interrupts, which no process is charged with. With quotas in place of cores (four hosts) that cannot be done, and comm_cpu is what "
            "processes are charged with, less than the truth. ideal = max(compute + comm_cpu, comm). \"At the ideal\" beside a bar is what would be seen if fused took the ideal time and no more.",
            *(["", "Where a bar is not met: [cluster-why.md](cluster-why.md)."] if why.exists() else [])]


def add_flags(parser):
    parser.add_argument("--name", default="page", help="name of the clusters that are made (page)")
    parser.add_argument("--lock", default="", metavar="FILE", help="hold this file locked while a command measures")


if __name__ == "__main__":
    Page("cluster", __doc__, SECTIONS, head, Hosts, add_flags).main()
