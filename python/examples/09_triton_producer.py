"""A product in Triton whose tiles leave for their ranks as they are made: gemm + reduce_scatter.

The kernel is triton_kernels/producer_gemm.py, which is plain_gemm.py beside it with a few lines changed. Here ranks are
processes that share memory and Triton interprets the kernel; tools/bench_triton.py runs it on a GPU.

    torchrun --standalone --nproc-per-node 2 python/examples/09_triton_producer.py
"""

import os
import pathlib
import sys
import tempfile

os.environ["TRITON_INTERPRET"] = "1"  # before a kernel is marked

import torch
import torch.distributed as dist
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import weft.triton as wt

sys.path.insert(0, str(pathlib.Path(__file__).parent / "triton_kernels"))
from producer_gemm import gemm

TILE, BLOCK_K = (16, 32), 16


def inputs(rank, m, n, k):
    draw = torch.Generator().manual_seed(rank)
    return torch.randn(m, k, generator=draw), torch.randn(n, k, generator=draw)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    m, n, k = 64, 96, 48
    plan = wt.plan("reduce_scatter", ranks, (m, n, k), TILE, torch.float32)
    folder = [tempfile.mkdtemp(dir="/dev/shm") if rank == 0 else None]
    dist.broadcast_object_list(folder)
    op = wt.Op(plan, programs=1, rank=rank, segments=wt.shared_segments(plan, f"{folder[0]}/segment"))
    x, w = inputs(rank, m, n, k)
    a, b = TensorDescriptor.from_tensor(x, [TILE[0], BLOCK_K]), TensorDescriptor.from_tensor(w, [TILE[1], BLOCK_K])
    gemm[op.grid](op, a, b, m, n, k, BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=BLOCK_K)
    y = op.output()
    everyone = [inputs(r, m, n, k) for r in range(ranks)]
    owed = wt.reference(plan, [x for x, _ in everyone], [w for _, w in everyone])[rank]
    print(f"rank {rank} of {ranks}: {tuple(y.shape)}, off by {(y - owed).abs().max():.1e} at most (Triton {triton.__version__})")
    dist.barrier()
    pathlib.Path(f"{folder[0]}/segment.{rank}").unlink()
    dist.barrier()
    if rank == 0:
        os.rmdir(folder[0])
