#!/usr/bin/env python3
"""What a call of an op on GPU tensors costs the host, from PyTorch: the shapes and row names of bench/cuda_call.cc, which
says what C++ takes. A time is that of 20 calls in a row, which nobody waits for, divided by 20: minimum and median of all
repeats, of rank 0. Between repeats the GPU ends its work and ranks meet.

usage: torchrun --standalone --nproc-per-node 4 tools/call_torch_gpu.py [REPEATS]
"""

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft

CALLS = 20
ROWS, N, K = 512, 1024, 256
TABLES, TABLE_ROWS, DIM, BAG, BATCH = 6, 1000, 128, 2, 512


def timed(name, call, repeats):
    took = []
    for repeat in range(-3, repeats):
        torch.cuda.synchronize()
        dist.barrier()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        if repeat >= 0:
            took.append((time.perf_counter() - start) * 1e6 / CALLS)
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print(f"| {name:52} | {min(took):6.1f} | {statistics.median(took):6.1f} |", flush=True)


def products(ranks):
    x, w = torch.zeros(ROWS, K, dtype=torch.bfloat16, device="cuda"), torch.zeros(N, K, dtype=torch.bfloat16, device="cuda")
    few, bias, wide = x[:1].contiguous(), w[:, 0].contiguous(), torch.zeros(ROWS, N, dtype=torch.bfloat16, device="cuda")
    room = ROWS // ranks
    even, uneven = [room] * ranks, [room - 8 * (r + 1) for r in range(ranks)]
    some, mine = x[: sum(uneven)].contiguous(), [uneven[dist.get_rank()]] * ranks
    yield "torch.empty", lambda: torch.empty(ROWS, N, dtype=torch.bfloat16, device="cuda")
    yield "F.linear, 512 rows", lambda: F.linear(x, w)
    yield "linear_all_reduce, 1 rows", lambda: weft.linear_all_reduce(few, w)
    yield "linear_all_reduce, 512 rows, alias", lambda: weft.linear_all_reduce(x, w, alias=True)
    yield "linear_all_reduce, 512 rows", lambda: weft.linear_all_reduce(x, w)
    yield "linear_reduce_scatter, 512 rows", lambda: weft.linear_reduce_scatter(x, w)
    yield (
        "linear_reduce_scatter, 512 rows, bias and silu",
        lambda: weft.linear_reduce_scatter(x, w, bias, activation="silu"),
    )
    yield "all_reduce, 512 rows", lambda: weft.all_reduce(wide)
    if ranks == 1:
        return
    for capacity, how in ((room, "with capacity"), (None, "asking")):
        yield f"linear_all_to_all, even, {how}", lambda: weft.linear_all_to_all(x, w, even, even, capacity=capacity)
        yield (
            f"linear_all_to_all, uneven, {how}",
            lambda: weft.linear_all_to_all(some, w, uneven, mine, capacity=capacity),
        )


def bags(ranks):
    tables = [torch.zeros(TABLE_ROWS, DIM, device="cuda") for _ in range(TABLES)]
    square = [torch.zeros(BATCH * ranks, BAG, dtype=torch.long, device="cuda") for _ in tables]
    indices, offsets = [i.reshape(-1) for i in square], [torch.arange(BATCH * ranks + 1, device="cuda") * BAG for _ in tables]
    call = weft.embedding_bag_all_to_all
    yield "embedding_bag_all_to_all, 6 tables", lambda: call(tables, indices, offsets, include_last_offset=True)
    yield "embedding_bag_all_to_all, 6 tables, 2-D indices", lambda: call(tables, square)
    together, begins = torch.cat(indices), torch.arange(TABLES * BATCH * ranks + 1, device="cuda") * BAG
    yield "embedding_bag_all_to_all, 6 tables, one tensor", lambda: call(tables, together, begins)


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("gloo")
    weft.init()
    if weft.rank() == 0:
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {weft.size()} ranks; microseconds of the host per call")
        print(f"| {'from PyTorch':52} |  least | median |\n|---|---:|---:|")
    with torch.no_grad():
        for ways in [products] + [bags] * (weft.size() > 1):
            for name, call in ways(weft.size()):
                timed(name, call, repeats)


if __name__ == "__main__":
    main()
