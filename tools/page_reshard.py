#!/usr/bin/env python3
"""Runs every line that must hold of cross-mesh resharding and writes docs/results/resharding.md, resharding.json and SVGs.

Sections whose names end in -hosts make virtual hosts (docs/cluster.md) and need root. Each section is kept in resharding.json
as soon as it is measured: run again with --only SECTION, or with --missing to measure what is not there yet.

usage: tools/page_reshard.py [--build build] [--out docs/results] [--only SECTION ...] [--missing] [--quick] [--list] [--write]
                             [--name page] [--lock FILE]
"""

import json
import re

from page import Page, number, row
from page_hosts import Hosts, json_of

OPTIMUM = (0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.5)
PACED = "1gbit,10us"
STAGING = 16 << 20
HOST_RATE, HOST_BYTES_PER_S = "250mbit", 250e6 / 8


class Reshards(Hosts):
    """`weft reshard`, on this machine or on the virtual hosts that are up."""

    def plan(self, words):
        seen = json_of(self.call([str(self.build / "weft"), "reshard", "plan", *words.split(), "--json"]))
        return {**seen, "command": f"weft reshard plan {words.replace(str(self.out) + '/', '')}"}

    def move(self, words, rounds):
        words = f"{words} --rounds {min(rounds, 2) if self.quick else rounds}"
        seen = json_of(self.call([str(self.build / "weft"), "reshard", "run", *words.split(), "--json"]))
        return {**seen, "command": f"weft reshard run {words}"}

    def move_on(self, ranks, words, rounds):
        words = f"{words} --rounds {min(rounds, 1) if self.quick else rounds}"
        seen = json_of(self.run(ranks, [str(self.build / "weft"), "reshard", "run", *words.split(), "--json"]))
        return {**seen, "command": f"{self.made}; weft cluster run -n {ranks} -- weft reshard run {words}"}


def bar(what, limit, sense, value, seen, note=""):
    """As row(), with prediction and time where row() looks for them."""
    return row(what, limit, sense, value, {"command": seen["command"], "aa_band": seen.get("aa_band"), "predicted_us": seen.get("predicted_us"),
                                           "fused_us": seen.get("time_us")}, note)


def of(seen, strategy):
    return next(r for r in seen["rows"] if r["asked"] == strategy)


def moves_table(all_seen):
    lines = ["| what | strategy | time ms | predicted ms | makespan ms | of makespan | Gbit/s | staging MB | verified |", "|---|---|---:|---:|---:|---:|---:|---:|---|"]
    for seen in all_seen:
        for r in seen.get("rows") or [seen]:
            taken = "" if r["asked"] == r["strategy"] else f" ({r['strategy']})"
            lines.append(f"| {seen['name']} | {r['asked']}{taken} | {r['time_us'] / 1e3:,.3f} | {r['predicted_us'] / 1e3:,.3f} | {r['makespan_us'] / 1e3:,.3f} | "
                         f"{number(r['of_makespan'], '.3f')} | {r['gbps']:.3g} | {r['staging_bytes'] / 1e6:.2f} | {'yes' if r['verified'] else 'NO'} |")
    return [*lines, ""]


def nine_plans(runner):
    rows, lines = [], ["| case | naive | balance | dfs | greedy | ours | bound | ours planned, ms |", "|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for number_of, optimum in enumerate(OPTIMUM, 1):
        seen = runner.plan(f"--case {number_of} --strategy broadcast")
        whole = runner.plan(f"--case {number_of}")
        rows.append(bar(f"case {number_of}: makespan, optimum {optimum}", optimum * 1.0005, "<=", seen["makespan"], seen, "a tile's worth of rounding allowed: 0.05 %"))
        rows.append(bar(f"case {number_of}: planned, ms", 20, "<=", seen["plan_ms"], seen))
        rows.append(bar(f"case {number_of}: planned with auto, ms", 20, "<=", whole["plan_ms"], whole, f"takes {whole['strategy']}"))
        table = runner.plan(f"--case {number_of} --compare")
        by_choice = {r["choice"]: r for r in table["rows"] if r["strategy"] == "broadcast"}
        lines.append(f"| {number_of} | " + " | ".join(f"{by_choice[c]['makespan']:.4g}" for c in ("naive", "balance", "dfs", "greedy", "ours"))
                     + f" | {seen['lower_bound']:.4g} | {seen['plan_ms']:.2f} |")
    svg = "resharding_case3.svg"
    drawn = runner.plan(f"--case 3 --strategy broadcast --svg {runner.out / svg}")
    return rows, [{"op": "case 3, per NIC", "svg": svg, "command": drawn["command"]}], [*lines, "", "Makespans of `broadcast` in units of the whole tensor over one NIC.", ""]


def random_cases(runner):
    cases = 500 if runner.quick else 10_000
    seen = json.loads(runner.call([runner.program("reshard_cases"), "--cases", str(cases), "--json"]))
    command = {"command": f"bench/reshard_cases --cases {cases}"}
    found = seen["random"]
    rows = [bar(f"{cases:,} random cases: ours longer than naive, balance, dfs, greedy or the exact search", 0, "<=", found["worse"], command,
                f"exact search done for {found['exact_checked']:,} with at most 8 tasks; cutting is shorter than its whole tasks in {found['exact_beaten_by_cutting']:,}"),
            bar("mean makespan / bound", 1.05, "<=", found["mean"], command,
                f"worst {found['worst']:.4f} (seed {found['worst_seed']}); at the bound in {found['at_bound']:,}; naive {found['mean_naive']:.3f}, balance {found['mean_balance']:.3f}, "
                f"dfs {found['mean_dfs']:.3f}, greedy {found['mean_greedy']:.3f}; planned in {found['mean_plan_ms']:.2f} ms, slowest {found['slowest_plan_ms']:.1f}")]
    rows += [bar(f"64x8 to 64x8, {r['layout']}, {r['nics_per_host']} NICs a host, {r['tasks']:,} tasks: planned, ms", 1000, "<=", r["plan_ms"], command,
                 f"makespan / bound {r['ratio']:.4f}") for r in seen["large"]]
    return rows, []


def large_plans(runner):
    """Through the command line."""
    rows = []
    for layout in ("S01,R,R R,S0,R", "S0,R,R R,S01,R", "S0,S1,R R,S0,S1"):
        src, dst = layout.split()
        seen = runner.plan(f"--shape 4096,4096,64 --src 64x8 --dst 64x8 --src-spec {src} --dst-spec {dst} --strategy broadcast")
        rows.append(bar(f"{seen['tasks']:,} tasks, 64x8 to 64x8, {src} to {dst}: planned, ms", 1000, "<=", seen["plan_ms"], seen,
                        f"makespan / bound {seen['makespan'] / seen['lower_bound']:.4f}"))
    return rows, []


def one_to_many_words(hosts, devices, shape="64,1024,256"):
    return f"--shape {shape} --src 1x1 --dst {hosts}x{devices} --src-spec R,R,R --dst-spec R,R,R --compare"


def nominal(seen):
    """What the link is shaped to over what the plan believes it carries: payload, as a TCP stream was seen to carry it."""
    return 1 if seen["link"] != "ucx" else HOST_BYTES_PER_S / seen["nic_bytes_per_s"]


def one_to_many_bars(seen, hosts, where):
    best, plain, line = of(seen, "auto"), of(seen, "send_recv"), nominal(seen)
    bars = {2: 3.5, 3: 5.3, 4: 7}
    return [bar(f"one to {hosts} hosts x 2 devices, 64 MB, {where}: of line rate", 0.9, ">=", best["of_line_rate"] / line, {**seen, **best, "command": seen["command"]},
                f"auto takes {best['strategy']}" + ("" if line == 1 else f"; {best['of_line_rate']:.3f} of what a TCP stream carries")),
            bar(f"one to {hosts} hosts x 2 devices, {where}: send_recv / auto", bars[hosts], ">=", plain["time_us"] / best["time_us"], seen)]


def one_to_many(runner):
    rows, all_seen = [], []
    for hosts in (2, 3, 4):
        seen = runner.move(f"{one_to_many_words(hosts, 2)} --link {PACED}", 3)
        all_seen.append(seen)
        rows += one_to_many_bars(seen, hosts, "paced")
    # 61 x 1021 x 257 cannot be cut into 4 equal parts: local_allgather falls back to send_recv.
    seen = runner.move(f"{one_to_many_words(4, 4, '61,1021,257')} --link {PACED}", 3)
    all_seen.append(seen)
    best = of(seen, "auto")
    for other in ("send_recv", "local_allgather"):
        rows.append(bar(f"uneven tiling, one to 4 hosts x 4 devices, paced: {other} / auto", 10, ">=", of(seen, other)["time_us"] / best["time_us"], seen))
    return rows, [], moves_table(all_seen)


def one_to_many_hosts(runner):
    rows, all_seen = [], []
    for hosts in (2, 3, 4):
        with runner.up(f"--hosts {hosts + 1} --rate {HOST_RATE} --cpus {2 / (hosts + 1):.2f}"):
            seen = runner.move_on(2 * (hosts + 1), one_to_many_words(hosts, 2), 2)
        all_seen.append(seen)
        rows += one_to_many_bars(seen, hosts, "virtual hosts")
    return rows, [], moves_table(all_seen)


def nine_bars(seen, case, where, within):
    best, line = of(seen, "auto"), nominal(seen)
    rows = [bar(f"case {case}, 64 MB, {where}: time / makespan", 1 + within, "<=", best["time_us"] * line / best["makespan_us"], {**seen, **best, "command": seen["command"]},
                f"auto takes {best['strategy']}" + ("" if line == 1 else f"; {1 / best['of_makespan']:.3f} at what a TCP stream carries"))]
    better = min(("send_recv", "local_allgather"), key=lambda s: of(seen, s)["time_us"])
    rows.append(bar(f"case {case}, {where}: time / the better of send_recv and local_allgather", 1, "<=", best["time_us"] / of(seen, better)["time_us"], seen, better))
    return rows


def nine_moves(runner):
    rows, all_seen = [], []
    for case in range(1, 10):
        seen = runner.move(f"--case {case} --size 64MB --link {PACED} --compare", 3)
        all_seen.append(seen)
        rows += nine_bars(seen, case, "paced", 0.10)
    return rows, [], moves_table(all_seen)


def nine_moves_hosts(runner):
    rows, all_seen = [], []
    for case, hosts in ((c, {6: 5, 7: 3, 8: 3}.get(c, 4)) for c in range(1, 10)):
        with runner.up(f"--hosts {hosts} --rate {HOST_RATE} --cpus {2 / hosts:.2f}"):
            seen = runner.move_on(4 * hosts, f"--case {case} --size 64MB --compare", 1)
        all_seen.append(seen)
        rows += nine_bars(seen, case, "virtual hosts", 0.15)
    return rows, [], moves_table(all_seen)


def tiny(runner):
    rows, all_seen = [], []
    layouts = {"one to 2 hosts x 2": "--src 1x1 --dst 2x2 --src-spec R --dst-spec R", "S0 to S1, 2x2 to 2x2": "--src 2x2 --dst 2x2 --src-spec S0 --dst-spec S1"}
    for name, layout in layouts.items():
        for link in ("shm", PACED):
            for kb in (1, 4, 16, 64):
                seen = runner.move(f"--shape {kb * 256} {layout} --link {link} --compare", 41)
                all_seen.append(seen)
                singles = [r for r in seen["rows"] if r["asked"] != "auto"]
                best = min(singles, key=lambda r: r["time_us"])
                rows.append(bar(f"{name}, {kb} KB, {link}: auto / best single strategy", max(1.1, 1 + seen["aa_band"]), "<=",
                                of(seen, "auto")["time_us"] / best["time_us"], {**seen, "aa_band": 0}, f"auto takes {of(seen, 'auto')['strategy']}, best {best['asked']}; A/A {seen['aa_band']:.3f}"))
    return rows, [], moves_table(all_seen)


def memory(runner):
    rows = []
    for words in (*(f"--case {case} --size 64MB --compare" for case in ((4, 7) if runner.quick else range(1, 10))), one_to_many_words(4, 2), "--tensors llama-2-70b --small --compare",
                  "--tensors u-transformer-1b --small --compare"):
        seen = runner.move(f"{words} --transport threads", 1)
        worst = max(seen["rows"], key=lambda r: r["staging_bytes"])
        rows.append(bar(f"{seen['name']}: bytes beside the shards, the rank with most", STAGING, "<=", worst["staging_bytes"], {"command": seen["command"]}, worst["asked"]))
    return rows, []


def manifests(runner):
    lines = ["| manifest | tensors | tasks | bytes | NICs | bound s | makespan s | makespan / bound | planned s | strategy | published |", "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---|"]
    rows, drawn = [], []
    for name in ("llama-2-70b", "kimi-k2", "gpt-1.3b", "gpt-2.6b", "u-transformer-1b", "u-transformer-2b"):
        svg = f"resharding_{re.sub('[^a-z0-9]', '_', name)}.svg"
        seen = runner.plan(f"--tensors {name} --svg {runner.out / svg}")
        lines.append(f"| {name} | {seen['tensors']:,} | {seen['tasks']:,} | {seen['bytes'] / 1e9:,.2f} GB | {seen['nics']} | {seen['lower_bound_s']:.4g} | {seen['makespan_s']:.4g} | "
                     f"{seen['makespan'] / seen['lower_bound']:.4f} | {seen['plan_ms'] / 1e3:.2f} | {seen['strategy']} | {seen.get('published', '')} |")
        rows.append(bar(f"{name}: planned jointly, s", 10, "<=", seen["plan_ms"] / 1e3, seen))
        if name in ("llama-2-70b", "kimi-k2"):
            drawn.append({"op": name, "svg": svg, "command": seen["command"]})
        else:
            (runner.out / svg).unlink()
    for name in ("llama-2-70b", "kimi-k2", "gpt-2.6b", "u-transformer-1b"):
        seen = runner.move(f"--tensors {name} --small --link {PACED}", 3)
        rows.append(bar(f"{name}, small, paced: time / makespan", 1.10, "<=", 1 / seen["of_makespan"], seen, f"{seen['bytes'] / 1e6:.1f} MB, {seen['ranks']} ranks, every element checked"))
    return rows, drawn, [*lines, ""]


SECTIONS = {
    "nine-plans": nine_plans, "random": random_cases, "large": large_plans, "one-to-many": one_to_many, "one-to-many-hosts": one_to_many_hosts,
    "nine-moves": nine_moves, "nine-moves-hosts": nine_moves_hosts, "tiny": tiny, "memory": memory, "manifests": manifests,
}


def head(report):
    return ["# Cross-mesh resharding: what must hold, measured", "",
            f"{report['machine']}. Written by `tools/page_reshard.py`; sections ending in -hosts run on virtual hosts (../cluster.md) and need root. Every number has its command, its section a date and commit.", "",
            "Makespan and bound are in units of the whole tensor over one NIC (../resharding.md has the model and the bound's proof). Moves are real: values new in every round, every element checked at every destination rank. "
            "Time is the median over rounds of the slowest rank; strategies take turns in each round; the A/A band is the same op twice in the same rounds. "
            f"Paced: every host's NIC at {PACED}, ranks as processes on shared memory; more ranks than cores, which paced links leave time for.", "",
            "Where a bar is not met: [resharding-why.md](resharding-why.md)."]


def add_flags(parser):
    parser.add_argument("--name", default="page", help="name of the clusters that are made (page)")
    parser.add_argument("--lock", default="", metavar="FILE", help="hold this file locked while a command measures")


if __name__ == "__main__":
    Page("resharding", __doc__, SECTIONS, head, Reshards, add_flags).main()
