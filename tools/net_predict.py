#!/usr/bin/env python3
"""What `weft sim net` says of operators beside what they take here: twelve shapes on 2 to 8 ranks, bulk and fused.

`paced`: local ranks over links of 1 Gbit/s, 100 us, one for each pair. `hosts`: virtual hosts (docs/cluster.md; root) with
one NIC each, TLS between them: 2 with a core each at 1 Gbit/s, 4 with half a core at 250 Mbit/s, 8 with a quarter at 125.

For each shape `weft bench` measures the product alone, the product and then the collective, and both fused. The simulator
gets the very plans that ran, the links as a network, and of the measurement only the product's own time: a table of seconds per
tile. Predicted bulk is that time and the simulated collective; predicted fused is the simulated fused plan. Between hosts
the core that computes also seals and opens what travels: the CPU time of the collective alone (comm_cpu_us) is part of the
tiles' time. A host with a quota of C cores that computes stands still for 1 - C of every 4 ms; a message that comes then
waits, (1 - C)^2 * 2 ms in the mean. Run it on a quiet machine.

usage: tools/net_predict.py [--build build] [--over paced hosts] [--rounds 15] [--shapes 0 4 8] [--json]
exit code 1 where a prediction is off by more than 10 %, or half of them by more than 5 %
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from page import Weft

SHAPES = [  # operator, ranks, m, n, k of a rank's product
    ("gemm-rs", 2, 1024, 1024, 1024), ("gemm-rs", 2, 2048, 1024, 512), ("gemm-rs", 4, 1024, 1024, 1024),
    ("gemm-rs", 8, 1024, 512, 1024), ("gemm-ar", 2, 1024, 512, 1024), ("gemm-ar", 2, 512, 1024, 2048),
    ("gemm-ar", 4, 1024, 512, 1024), ("gemm-ar", 8, 512, 512, 1024), ("gemm-a2a", 2, 1024, 1024, 1024),
    ("gemm-a2a", 4, 1024, 1024, 1024), ("gemm-a2a", 4, 2048, 512, 1024), ("gemm-a2a", 8, 1024, 512, 1024),
]
HOSTS = {2: "--hosts 2 --rate 1gbit --pin", 4: "--hosts 4 --rate 250mbit --cpus 0.5", 8: "--hosts 8 --rate 125mbit --cpus 0.25"}
PAYLOAD = 1448 / 1514  # of a frame's bytes; the shaper counts frames
AT_ONCE = 0            # packet of a token bucket: what comes at its rate passes it without delay
PERIOD = 4e-3          # of a quota (weft/virtual/quota.cc)
SLICE = 1.4e-3         # a process keeps a core that others want, where the kernel does not say


class Links:
    """What a shape runs over, as the simulator sees it: networks of ranks that wait and of ranks that compute, and CPU
    seconds of the wire."""

    def __init__(self, folder, waiting, computing=None, wire_s=0, shared_s=0):
        self.waiting, self.computing = folder / "waiting.json", folder / "computing.json"
        self.wire_s, self.shared_s = wire_s, shared_s
        self.waiting.write_text(json.dumps(waiting))
        self.computing.write_text(json.dumps(computing or waiting))


def network_of(kind, ranks, rate, latency, packet):
    link = {"bytes_per_s": rate, "latency_s": latency}
    return {"name": "measured", "kind": kind, "ranks": ranks, "packet_bytes": packet, "link": link}


def bench_words(shape, folder):
    op, _, m, n, k = shape
    return f"{op} --m {m} --n {n} --k {k} --save {folder}/fused.json --save-collective {folder}/alone.json"


def slice_s():
    """How long a process keeps a core that others want."""
    try:
        return int(pathlib.Path("/sys/kernel/debug/sched/base_slice_ns").read_text()) * 1e-9
    except (OSError, ValueError):
        return SLICE


def over_paced(weft, folder, shape, rounds):
    measured = weft.json(f"bench {bench_words(shape, folder)} --ranks {shape[1]} --link 1gbit,100us --rounds {rounds}")
    ranks, share = shape[1], min(1, os.cpu_count() / shape[1])  # of a core
    waiting, computing = (network_of("full", ranks, 125e6, 100e-6 + still, "whole")
                          for still in (0, (1 - share) ** 2 * slice_s() / share / 2))
    shared_s = measured["comm_cpu_us"] * 1e-6 / share if share < 1 else 0
    return measured, Links(folder, waiting, computing, shared_s, shared_s)


def over_hosts(weft, folder, shape, rounds):
    ranks = shape[1]
    with weft.hosts(HOSTS[ranks]) as made:
        measured = weft.bench_on(ranks, bench_words(shape, folder), rounds)
    rate, cores = made["hosts"][0]["rate"] * PAYLOAD, made["hosts"][0].get("cpus") or 1
    latency, still = made["latency_us"] * 1e-6, (1 - cores) ** 2 * PERIOD / 2
    # Half of the way is that of a link: a message takes one to the switch and one from it.
    waiting, computing = (network_of("switch", ranks, rate, way / 2, AT_ONCE) for way in (latency, latency + still))
    return measured, Links(folder, waiting, computing, measured["comm_cpu_us"] * 1e-6 / cores)


def write_steps(path, plan, seconds):
    rules = json.loads(plan.read_text())["rules"]
    table = {rule["name"]: seconds for rule in rules if rule["kind"] == "step"}
    path.write_text(json.dumps({"name": "measured", "seconds_per_tile": table}))


def predict(weft, folder, measured, links):
    steps, fused, alone = folder / "steps.json", folder / "fused.json", folder / "alone.json"

    def run(*words):
        words = [str(weft.build / "weft"), *map(str, words), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def simulate(plan, network, *more):
        return run("sim", "net", plan, "--network", network, "--every-rank", *more)

    write_steps(steps, fused, 1e-6)  # first to count the tiles of a rank
    tiles = simulate(fused, links.computing, "--steps", steps)["compute_us"]
    write_steps(steps, fused, (measured["compute_us"] * 1e-6 + links.wire_s) / tiles)
    bulk = measured["compute_us"] + links.shared_s * 1e6 + simulate(alone, links.waiting)["time_us"]
    return bulk, simulate(fused, links.computing, "--steps", steps)["time_us"]


def shown(row):
    parts = [f"{row['over']:<6}{row['op']:<9}{row['ranks']:>2} ranks {row['m']:>5} x {row['n']:>5} x {row['k']:>5}:"]
    for style in ("bulk", "fused"):
        seen, said = row[f"{style}_us"], row[f"{style}_predicted_us"]
        parts.append(f"{style} {seen:>9.0f} us, predicted {said:>9.0f} ({(said / seen - 1) * 100:+.1f} %);")
    return " ".join(parts).rstrip(";") + f"; A/A {row['aa_band'] * 100:.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--over", nargs="+", default=["paced", "hosts"], choices=["paced", "hosts"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shapes", nargs="+", type=int, default=list(range(len(SHAPES))), help="numbers from 0 on")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.quick = False
    weft, rows, bad = Weft(args), [], False
    for over in args.over:
        errors = []
        for number in args.shapes:
            shape = SHAPES[number]
            op, ranks, m, n, k = shape
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                measured, links = (over_paced if over == "paced" else over_hosts)(weft, folder, shape, args.rounds)
                bulk, fused = predict(weft, folder, measured, links)
            rows.append({"over": over, "op": op, "ranks": ranks, "m": m, "n": n, "k": k, "route": measured["route"],
                         "compute_us": measured["compute_us"], "bulk_us": measured["sequential_us"],
                         "bulk_predicted_us": bulk, "fused_us": measured["fused_us"], "fused_predicted_us": fused,
                         "aa_band": measured["aa_band"]})
            errors += [abs(rows[-1][f"{style}_predicted_us"] / rows[-1][f"{style}_us"] - 1) for style in ("bulk", "fused")]
            if not args.json:
                print(shown(rows[-1]), flush=True)
        worst, middle = max(errors), statistics.median(errors)
        bad = bad or worst > 0.10 or middle > 0.05
        if not args.json:
            print(f"{over}: off by {worst * 100:.1f} % at most, {middle * 100:.1f} % in the middle")
    if args.json:
        print(json.dumps({"rows": rows}))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
