#!/usr/bin/env python3
"""What `weft sim net` says of operators beside what they take here, over paced links: twelve shapes, bulk and fused.

For each shape `weft bench` measures the product alone, the product and then the collective, and both fused. The
simulator gets the very plans, the paced links as a network, and of the measurement only the product's own time: a
table of seconds per tile. Predicted bulk is that time and the simulated collective; predicted fused is the simulated
fused plan. Run it on a quiet machine: ranks share its cores in all columns alike.

usage: tools/net_predict.py [--weft build/weft] [--rounds 15] [--only 3] [--json]
exit code 1 where a prediction is off by more than 10 %, or half of them by more than 5 %
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

LINK_RATE, LINK_LATENCY = 125e6, 100e-6  # --link 1gbit,100us: one link for each pair of ranks
SHAPES = [  # operator, ranks, m, n, k of a rank's product
    ("gemm-rs", 2, 1024, 1024, 1024), ("gemm-rs", 2, 2048, 1024, 512), ("gemm-rs", 4, 1024, 1024, 1024),
    ("gemm-rs", 8, 1024, 512, 1024), ("gemm-ar", 2, 1024, 512, 1024), ("gemm-ar", 2, 512, 1024, 2048),
    ("gemm-ar", 4, 1024, 512, 1024), ("gemm-ar", 8, 512, 512, 1024), ("gemm-a2a", 2, 1024, 1024, 1024),
    ("gemm-a2a", 4, 1024, 1024, 1024), ("gemm-a2a", 4, 2048, 512, 1024), ("gemm-a2a", 8, 1024, 512, 1024),
]
ALONE = {"gemm-rs": "rs", "gemm-ar": "ar", "gemm-a2a": "a2a"}


def run_json(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def write_network(folder, ranks):
    path = folder / f"network{ranks}.json"
    link = {"bytes_per_s": LINK_RATE, "latency_s": LINK_LATENCY}
    path.write_text(json.dumps({"name": "paced", "kind": "full", "ranks": ranks, "packet_bytes": "whole", "link": link}))
    return path


def write_steps(path, plan, seconds):
    rules = json.loads(plan.read_text())["rules"]
    table = {rule["name"]: seconds for rule in rules if rule["kind"] == "step"}
    path.write_text(json.dumps({"name": "measured", "seconds_per_tile": table}))


def predict(args, folder, shape, measured):
    op, ranks, m, n, k = shape
    network, steps = write_network(folder, ranks), folder / "steps.json"
    fused, alone = folder / "fused.json", folder / "alone.json"
    run_json(args.weft, "plan", op, "--ranks", ranks, "--m", m, "--n", n, "--k", k, "--route", measured["route"], "--save",
             fused, "--json")
    run_json(args.weft, "plan", ALONE[op], "--ranks", ranks, "--m", m, "--n", n, "--route", measured["comm_route"],
             "--save", alone, "--json")

    def simulate(plan, *more):
        return run_json(args.weft, "sim", "net", plan, "--network", network, "--json", *more)

    write_steps(steps, fused, 1e-6)  # first to count the tiles of a rank
    tiles = simulate(fused, "--steps", steps)["compute_us"]
    write_steps(steps, fused, measured["compute_us"] * 1e-6 / tiles)
    return measured["compute_us"] + simulate(alone)["time_us"], simulate(fused, "--steps", steps)["time_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--weft", default="build/weft")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", type=int, default=len(SHAPES))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, errors = [], []
    with tempfile.TemporaryDirectory() as name:
        for shape in SHAPES[: args.only]:
            op, ranks, m, n, k = shape
            measured = run_json(args.weft, "bench", op, "--ranks", ranks, "--m", m, "--n", n, "--k", k, "--link",
                                "1gbit,100us", "--rounds", args.rounds, "--json")
            bulk, fused = predict(args, pathlib.Path(name), shape, measured)
            row = {"op": op, "ranks": ranks, "m": m, "n": n, "k": k, "compute_us": measured["compute_us"],
                   "bulk_us": measured["sequential_us"], "bulk_predicted_us": bulk, "fused_us": measured["fused_us"],
                   "fused_predicted_us": fused, "aa_band": measured["aa_band"]}
            rows.append(row)
            for style in ("bulk", "fused"):
                errors.append(row[f"{style}_predicted_us"] / row[f"{style}_us"] - 1)
            if not args.json:
                print(f"{op:<9}{ranks:>2} ranks {m:>5} x {n:>5} x {k:>5}: bulk {row['bulk_us']:>9.0f} us, predicted "
                      f"{bulk:>9.0f} ({errors[-2] * 100:+.1f} %); fused {row['fused_us']:>9.0f}, predicted {fused:>9.0f} "
                      f"({errors[-1] * 100:+.1f} %)", flush=True)
    worst, middle = max(map(abs, errors)), statistics.median(map(abs, errors))
    if args.json:
        print(json.dumps({"rows": rows, "worst": worst, "median": middle}))
    else:
        print(f"off by {worst * 100:.1f} % at most, {middle * 100:.1f} % in the middle")
    return int(worst > 0.10 or middle > 0.05)


if __name__ == "__main__":
    sys.exit(main())
