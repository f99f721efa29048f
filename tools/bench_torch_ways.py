#!/usr/bin/env python3
"""One way of Weft's linear ops in bfloat16, twice (A/A), beside torch's product alone and gloo; a process has one way.

usage: WEFT_WAY=window|after|fused torchrun --standalone --nproc-per-node 2 tools/bench_torch_ways.py [ROUNDS]
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft

SHAPES = [(2048, 2048, 128), (2048, 2048, 512)]  # m, n, k of one rank


def slowest_ms(call):
    dist.barrier()
    begin = time.perf_counter()
    call()
    taken = torch.tensor([time.perf_counter() - begin])
    dist.all_reduce(taken, op=dist.ReduceOp.MAX)
    return taken.item() * 1e3


def main(rounds):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    weft.init()
    for m, n, k in SHAPES:
        x, w = torch.randn(m, k).bfloat16(), torch.randn(n, k).bfloat16()
        part = x.new_empty(m // dist.get_world_size(), n)
        after = {
            weft.linear_reduce_scatter: lambda y: dist.reduce_scatter_tensor(part, y),
            weft.linear_all_reduce: lambda y: dist.all_reduce(y),
        }
        for op, gloo in after.items():
            calls = {
                os.environ.get("WEFT_WAY", "chosen"): lambda: op(x, w),
                "again": lambda: op(x, w),
                "product": lambda: F.linear(x, w),
                "gloo": lambda: gloo(F.linear(x, w)),
            }
            for call in calls.values():
                call()
            times = [[slowest_ms(call) for call in calls.values()] for _ in range(rounds)]
            medians = [statistics.median(column) for column in zip(*times)]
            if dist.get_rank() == 0:
                print(op.__name__, m, n, k, " ".join(f"{name} {ms:.2f}" for name, ms in zip(calls, medians)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
