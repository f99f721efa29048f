#!/usr/bin/env python3
"""`weft sim net` beside SimGrid and ASTRA-sim, the same cases on the same links.

The peers are not here: have them outside the tree, as their projects say, and name what you have.
  --simgrid    simgrid.cc, linked with Debian's libsimgrid-dev
  --astra      astra.cc, linked with ASTRA-sim's analytical network: its links alone, fed messages
  --astra-sim  ASTRA-sim's own program with its congestion-aware analytical network: traces, collectives, network

usage: tools/peers/compare.py --weft build/weft [--simgrid FILE] [--astra FILE] [--astra-sim FILE] [--most 1024] [--flows 50]

Packets have no length beside SimGrid, and messages are stored at every link beside ASTRA-sim, as theirs are. Seconds are
wall-clock. Beside --simgrid and --astra Weft's are those of expanding the plan and running it, theirs those of setting
up and running; beside --astra-sim both are those of the whole process, which reads a plan, or a trace per rank. Weft
simulates all ranks, then one of each class. Run it on a quiet machine.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import tempfile
import time

RATE, LATENCY = 50e9, 500e-9
GIB = float(1 << 30)


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def write_network(folder, kind, ranks):
    path = folder / f"network-{kind}{ranks}.json"
    link = {"bytes_per_s": RATE, "latency_s": LATENCY}
    path.write_text(json.dumps({"name": kind, "kind": kind, "ranks": ranks, "link": link}))
    return path


def write_yaml(folder, kind, ranks):
    path = folder / f"{kind}{ranks}.yml"
    name = {"ring": "Ring", "switch": "Switch"}[kind]
    path.write_text(f"topology: [ {name} ]\nnpus_count: [ {ranks} ]\nbandwidth: [ {RATE / GIB!r} ]\n"
                    f"latency: [ {LATENCY * 1e9!r} ]\n")
    return path


def weft_plan(weft, folder, what, ranks, size):
    path = folder / f"{what}{ranks}.json"
    if what == "ring":  # a tile per chunk
        cols = size // 4 // ranks
        run(weft, "plan", "ar", "--ranks", ranks, "--m", ranks, "--n", cols, "--tile", f"1,{cols}", "--route", "ring",
            "--slices", 1, "--save", path)
    else:
        cols = size // 4
        run(weft, "plan", "a2a", "--ranks", ranks, "--m", ranks, "--n", cols, "--tile", f"1,{cols}", "--route", "direct",
            "--save", path)
    return path


def weft_run(weft, plan, network, packet, *more):
    return json.loads(run(weft, "sim", "net", plan, "--network", network, "--packet", packet, "--unproved", "--json", *more))


def run_astra_sim(program, folder, what, kind, ranks, size):
    """One collective of all ranks by ASTRA-sim as a whole: its simulated time, and the seconds of its process."""
    for rank in range(ranks):
        kind_of = {"ring": 0, "a2a": 6}[what]
        node = field(1, 1) + field(2, what.encode()) + field(3, 7) + attribute("comm_type", kind_of)
        node += attribute("comm_size", size if what == "ring" else size * ranks)
        (folder / f"coll.{rank}.et").write_bytes(varint(7) + field(1, b"0.0.4") + varint(len(node)) + node)
    ways = {f"{name}-implementation": [way] for name, way in
            (("all-reduce", "ring"), ("all-gather", "ring"), ("reduce-scatter", "ring"), ("all-to-all", "direct"))}
    system = {"scheduling-policy": "LIFO", "endpoint-delay": 1, "active-chunks-per-dimension": 1,
              "preferred-dataset-splits": 1, **ways, "collective-optimization": "baseline", "local-mem-bw": 1e6,
              "boost-mode": 0}
    (folder / "system.json").write_text(json.dumps(system))
    (folder / "memory.json").write_text(json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}))
    begin = time.monotonic()
    done = subprocess.run([program, f"--workload-configuration={folder / 'coll'}",
                           f"--system-configuration={folder / 'system.json'}",
                           f"--remote-memory-configuration={folder / 'memory.json'}",
                           f"--network-configuration={write_yaml(folder, kind, ranks)}"],
                          capture_output=True, text=True, check=False, cwd=folder)
    wall = time.monotonic() - begin
    ends = [int(cycles) for cycles in re.findall(r"finished, (\d+) cycles", done.stdout)]
    if len(ends) != ranks:
        raise SystemExit(f"{program}: {len(ends)} of {ranks} ranks finished: {done.stderr[-500:]}")
    return max(ends) * 1e-9, wall


def run_peer(peer, program, folder, what, kind, ranks, size):
    if peer == "astra_sim":
        return run_astra_sim(program, folder, what, kind, ranks, size)
    if peer == "simgrid":
        return map(float, run(program, what, ranks, size, RATE, LATENCY).split())
    nanoseconds, wall = map(float, run(program, write_yaml(folder, kind, ranks), what, size).split())
    return nanoseconds * 1e-9, wall


def compare_collectives(args, folder):
    print(f"{'case':<22}{'ranks':>6} {'beside':<9}{'weft us':>12}{'theirs us':>12}{'apart':>9}"
          f"{'all ranks s':>12}{'folded s':>10}{'theirs s':>10}{'times':>8}{'folded':>8}")
    worst = 0
    for what, kind, size in (("ring", "ring", 64 << 20), ("a2a", "switch", 1 << 20)):
        for ranks in (8, 64, 256, 1024):
            if ranks > args.most or (what == "a2a" and ranks > 256):
                continue
            plan, network = weft_plan(args.weft, folder, what, ranks, size), write_network(folder, kind, ranks)
            for peer, packet in (("simgrid", "0"), ("astra", "whole"), ("astra_sim", "whole")):
                program = getattr(args, peer)
                if not program:
                    continue
                theirs, wall = run_peer(peer, program, folder, what, kind, ranks, size)
                walls = []
                for more in (["--every-rank"], []):
                    begin = time.monotonic()
                    ours = weft_run(args.weft, plan, network, packet, *more)
                    walls.append(time.monotonic() - begin if peer == "astra_sim" else ours["wall_s"])
                apart = ours["time_us"] * 1e-6 / theirs - 1
                worst = max(worst, abs(apart))
                print(f"{what + ', ' + kind:<22}{ranks:>6} {peer:<9}{ours['time_us']:>12.3f}{theirs * 1e6:>12.3f}"
                      f"{apart * 100:>8.3f}%{walls[0]:>12.4f}{walls[1]:>10.4f}{wall:>10.4f}"
                      f"{wall / walls[0]:>8.1f}{wall / walls[1]:>8.1f}", flush=True)
    print(f"largest difference {worst * 100:.3f} %")


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def attribute(name, value):
    return field(10, field(1, name.encode()) + field(9, value))


PIECE = 1 << 18


def pieces(flows):
    """Flows in messages, taking turns, as fair shares of a link do."""
    out = []
    for turn in range(1 + max(size for _, _, size in flows) // PIECE):
        for source, target, size in flows:
            if size > turn * PIECE:
                out.append((source, target, min(PIECE, size - turn * PIECE)))
    return out


def write_trace(folder, ranks, flows):
    """Sends and receives as a Chakra trace, one file per rank."""
    texts = [bytearray(varint(7) + field(1, b"0.0.4")) for _ in range(ranks)]
    for index, (source, target, size) in enumerate(pieces(flows)):
        for rank, kind in ((source, 5), (target, 6)):
            node = field(1, index) + field(2, b"flow") + field(3, kind)
            for name, value in (("comm_src", source), ("comm_dst", target), ("comm_size", size), ("comm_tag", index)):
                node += attribute(name, value)
            texts[rank] += varint(len(node)) + node
    for rank, text in enumerate(texts):
        (folder / f"flows.{rank}.et").write_bytes(bytes(text))
    return folder / "flows"


def compare_flows(args, folder, ranks=16, count=48):
    """Makespans of random sets of flows through a switch: first come, first served, beside fair shares."""
    network = write_network(folder, "switch", ranks)
    apart = []
    for seed in range(args.flows):
        pick = random.Random(seed)
        flows = [(*pick.sample(range(ranks), 2), pick.randrange(1 << 16, 1 << 24)) for _ in range(count)]
        (folder / "flows.txt").write_text("".join(f"{a} {b} {size}\n" for a, b, size in flows))
        theirs = float(run(args.simgrid, "flows", folder / "flows.txt", ranks, RATE, LATENCY).split()[0])
        ours = weft_run(args.weft, write_trace(folder, ranks, flows), network, "0")["time_us"] * 1e-6
        apart.append(ours / theirs - 1)
    apart.sort(key=abs)
    print(f"{args.flows} random sets of {count} flows, {ranks} ranks: makespans differ by {abs(apart[-1]) * 100:.2f} % at "
          f"most, {abs(apart[len(apart) // 2]) * 100:.2f} % in the middle")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--weft", default="build/weft")
    parser.add_argument("--simgrid")
    parser.add_argument("--astra")
    parser.add_argument("--astra-sim")
    parser.add_argument("--most", type=int, default=1024)
    parser.add_argument("--flows", type=int, default=50)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compare_collectives(args, folder)
        if args.simgrid and args.flows:
            compare_flows(args, folder)


if __name__ == "__main__":
    main()
