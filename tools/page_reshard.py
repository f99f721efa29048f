#!/usr/bin/env python3
"""Plans and runs cross-mesh resharding and writes the table and the picture of docs/results/resharding.md.

Rows on virtual hosts (docs/cluster.md) need root; --no-hosts leaves them out.

usage: tools/page_reshard.py [--build build] [--no-hosts] [--quick]
"""

import json

from page import RESULTS, Page, slashed, spread

OPTIMUM = (0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 0.5)
PACED = "--link 1gbit,10us"
HOST_RATE = "250mbit"
HOSTS_OF_CASE = {6: 5, 7: 3, 8: 3}  # others have 4


def of(seen, strategy):
    return next(r for r in seen["rows"] if r["asked"] == strategy)


def one_to_many(hosts, devices=2, shape="64,1024,256"):
    return f"reshard run --shape {shape} --src 1x1 --dst {hosts}x{devices} --src-spec R,R,R --dst-spec R,R,R --compare"


def plans(weft):
    plan_ms, met = [], 0
    for case, optimum in enumerate(OPTIMUM, 1):
        seen = weft.json(f"reshard plan --case {case} --strategy broadcast")
        plan_ms.append(seen["plan_ms"])
        met += seen["makespan"] <= optimum * 1.0005  # a tile's worth of rounding
    weft.json(f"reshard plan --case 3 --strategy broadcast --svg {RESULTS / 'resharding_case3.svg'}")
    cases = 500 if weft.quick else 10_000
    printed = weft.program("reshard_cases", f"--cases {cases} --json")
    if printed is None:
        raise RuntimeError("bench/reshard_cases cannot be built")
    seen = json.loads(printed)
    found, large = seen["random"], seen["large"]
    return [["nine cases of the literature: makespan", f"equal to the optimum in {met} of 9, planned in at most {max(plan_ms):.1f} ms"],
            [f"{cases:,} random cases: makespan / bound", f"mean {found['mean']:.5f}, worst {found['worst']:.4f}, at the bound in {found['at_bound']:,}"],
            ["the same: longer than any of five other planners, exact search included",
             ("never" if found["worse"] == 0 else f"{found['worse']} times") + f" (exact search: {found['exact_checked']:,} cases)"],
            [f"{max(r['tasks'] for r in large):,} tasks, 64 x 8 to 64 x 8 devices",
             f"planned in {spread([r['plan_ms'] / 1e3 for r in large], '.1f')} s, makespan / bound at most {max(r['ratio'] for r in large):.4f}"]]


def paced(weft):
    rounds = f"{PACED} --rounds {2 if weft.quick else 3}"
    many = [weft.json(f"{one_to_many(hosts)} {rounds}") for hosts in (2, 3, 4)]
    uneven = weft.json(f"{one_to_many(4, 4, '61,1021,257')} {rounds}")  # cannot be cut into equal parts
    nine = [weft.json(f"reshard run --case {case} --size 64MB --compare {rounds}") for case in range(1, 10)]
    return [["one to 2 / 3 / 4 hosts x 2 devices, 64 MB, paced: of line rate", slashed((of(s, "auto")["of_line_rate"] for s in many), ".3f")],
            ["the same: send_recv / ours", slashed((of(s, "send_recv")["time_us"] / of(s, "auto")["time_us"] for s in many), ".1f")],
            ["uneven tiling, one to 4 hosts x 4 devices: send_recv / ours", f"{of(uneven, 'send_recv')['time_us'] / of(uneven, 'auto')['time_us']:.1f}"],
            ["nine cases, paced: time / makespan", spread([1 / of(s, "auto")["of_makespan"] for s in nine], ".3f")],
            ["memory beside the shards", f"{spread([of(s, 'auto')['staging_bytes'] / 1e3 for s in nine + many], '.0f')} KB per rank"]]


def on_hosts(weft):
    def moved(hosts, ranks, words):
        with weft.hosts(f"--hosts {hosts} --rate {HOST_RATE} --cpus {2 / hosts:.2f}"):
            printed = weft.on_hosts(ranks, [str(weft.build / "weft"), *words.split(), "--rounds", "1", "--json"])
        return of(json.loads(next(line for line in printed.splitlines() if line.startswith("{"))), "auto")

    many = [moved(hosts + 1, 2 * (hosts + 1), one_to_many(hosts)) for hosts in (2, 3, 4)]
    nine = [moved(hosts, 4 * hosts, f"reshard run --case {case} --size 64MB --compare") for case, hosts in ((c, HOSTS_OF_CASE.get(c, 4)) for c in range(1, 10))]
    return [["one to 2 / 3 / 4 hosts x 2 devices, virtual hosts: of what a TCP stream carries", slashed((s["of_line_rate"] for s in many), ".3f")],
            ["nine cases, virtual hosts: time / makespan", spread([1 / s["of_makespan"] for s in nine], ".3f")]]


def resharding(weft):
    rows = plans(weft) + paced(weft) + ([] if weft.options.no_hosts else on_hosts(weft))
    seen = weft.json("reshard plan --tensors kimi-k2")
    rows.append([f"a model of 1.03 T parameters, {seen['nics']} NICs (predicted)",
                 f"{seen['makespan_s']:.3f} s, {seen['makespan'] / seen['lower_bound']:.4f} of the bound; planned in {seen['plan_ms'] / 1e3:.1f} s"])
    return ["figure", "seen"], rows


if __name__ == "__main__":
    Page("resharding", __doc__, {"resharding": resharding}).main(lambda parser: parser.add_argument("--no-hosts", action="store_true"))
