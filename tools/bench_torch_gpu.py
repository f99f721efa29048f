#!/usr/bin/env python3
"""Fused ops on tensors of GPUs against the same in two steps: torch's own kernel, then Weft's collective alone. (NCCL takes
no two ranks on one GPU; ranks that share one need MPS.) Every way has its turn in every round, one of them twice; times
are the GPU's, of the slowest rank, for 20 calls in a row divided by 20.

  gemv   F.linear of 1, 4 or 16 rows, then all_reduce: n 4096 to 12288, k = n / 4
  bags   F.embedding_bag of 6 tables, then all_to_all: bags of 1 to 16 of DLRM-v2's tables (rows capped at 400,000)
  gemm   F.linear, then all_to_all: second product of Mixtral's experts, 4096 rows per rank

`call` is how long the host takes for one call, in microseconds.

usage: torchrun --standalone --nproc-per-node 4 tools/bench_torch_gpu.py [--rounds 9] [--json]
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft

CALLS = 20


def timed(call):
    """Microseconds of the GPU per call, and of the host."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    dist.barrier()
    begin.record()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    took = time.perf_counter() - start
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / CALLS, took * 1e6 / CALLS


def contest(ways, rounds):
    """Median microseconds of each way, of the slowest rank."""
    took = {name: [] for name in ways}
    for call in ways.values():
        for _ in range(3):
            call()
    for _ in range(rounds):
        for name, call in ways.items():
            both = torch.tensor(timed(call), dtype=torch.float64)
            dist.all_reduce(both, op=dist.ReduceOp.MAX)
            took[name].append(both.tolist())
    return {name: [statistics.median(column) for column in zip(*times)] for name, times in took.items()}


def recorded(call):
    """The calls as a CUDA graph: without the host's part of them."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def in_turn(values):
    """Each call takes the next one: weights come from memory, not from the cache."""
    state = {"next": 0}

    def take():
        state["next"] = (state["next"] + 1) % len(values)
        return values[state["next"]]

    return take


def gemv_rows():
    for n in (4096, 8192, 12288):
        for m in (1, 4, 16):
            k = n // 4
            x = torch.randn(m, k, device="cuda").bfloat16()
            many = [torch.randn(n, k, device="cuda").bfloat16() for _ in range(max(2, 200_000_000 // (n * k * 2)))]

            def unfused():
                for w in many:
                    y = weft.all_reduce(F.linear(x, w))
                return y

            def fused():
                for w in many:
                    y = weft.linear_all_reduce(x, w)
                return y

            yield "gemv", f"{m} x {n}, k {k}", len(many), {"unfused": recorded(unfused), "fused": recorded(fused), "again": recorded(fused)}


def bag_rows():
    ranks, batch, dim, tables = dist.get_world_size(), 8192, 128, 6
    kept = [torch.randn(400_000, dim, device="cuda") for _ in range(tables)]
    for size in (1, 2, 4, 8, 16):
        draws = in_turn([[torch.randint(0, 400_000, (batch, size), device="cuda") for _ in range(tables)] for _ in range(8)])
        begins = torch.arange(batch + 1, device="cuda") * size

        def unfused():
            pooled = torch.cat([F.embedding_bag(i, table, mode="sum") for i, table in zip(draws(), kept)], dim=1)
            moved = weft.all_to_all(pooled).view(ranks, batch // ranks, tables * dim)
            return moved.transpose(0, 1).reshape(batch // ranks, -1)

        def fused():
            indices = [i.view(-1) for i in draws()]
            return weft.embedding_bag_all_to_all(kept, indices, [begins] * tables, include_last_offset=True)

        yield "bags", f"bags of {size}", 1, {"unfused": unfused, "fused": fused, "again": fused}


def gemm_rows():
    for m, n, k in ((4096, 4096, 14336), (4096, 4096, 3584), (4096, 7168, 2048)):
        x, w = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16()
        send = [m // dist.get_world_size()] * dist.get_world_size()
        yield "gemm", f"{m} x {n}, k {k}", 1, {
            "unfused": lambda: weft.all_to_all(F.linear(x, w)),
            "fused": lambda: weft.linear_all_to_all(x, w, send, send),
            "again": lambda: weft.linear_all_to_all(x, w, send, send),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo")
    weft.init()
    found = []
    for rows in (gemv_rows, bag_rows, gemm_rows):
        for kind, shape, calls, ways in rows():
            took = contest(ways, options.rounds)
            gpu = {name: times[0] / calls for name, times in took.items()}
            less = 1 - gpu["fused"] / gpu["unfused"]
            found.append({"kind": kind, "shape": shape, **gpu, "call": took["fused"][1], "less": less})
            if dist.get_rank() == 0 and not options.json:
                times = "".join(f"{name} {us:9.1f}  " for name, us in gpu.items())
                print(f"{kind:5} {shape:22}{times}{less:6.1%} less, call {took['fused'][1]:.1f}", flush=True)
    if dist.get_rank() != 0:
        return
    if options.json:
        print(json.dumps(found))
        return
    for kind in ("gemv", "bags", "gemm"):
        of_kind = [row["less"] for row in found if row["kind"] == kind]
        print(f"{kind}: mean {statistics.mean(of_kind):.1%} less, most {max(of_kind):.1%}")


if __name__ == "__main__":
    main()
