"""A tensor-parallel MLP on GPUs: two linear layers and the sum over the ranks behind them, without NCCL.

    torchrun --standalone --nproc-per-node 4 python/examples/10_on_gpus.py

A rank has a GPU of its own, or several share one: then start MPS first (nvidia-cuda-mps-control -d).
"""

import os

import torch
import torch.nn.functional as F

import weft

WIDTH, HIDDEN, ROWS = 1024, 4096, 512


def main():
    if not torch.cuda.is_available():
        print("there is no GPU here")
        return
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    weft.init()
    rank, ranks = weft.rank(), weft.size()
    torch.manual_seed(7)  # the same on every rank, which takes its part
    x = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    up, down = torch.randn(HIDDEN, WIDTH, device="cuda") / 32, torch.randn(WIDTH, HIDDEN, device="cuda") / 64
    part = slice(rank * HIDDEN // ranks, (rank + 1) * HIDDEN // ranks)
    my_up, my_down = up[part].bfloat16(), down[:, part].bfloat16().contiguous()

    hidden = F.silu(F.linear(x, my_up))
    y = weft.linear_all_reduce(hidden, my_down)  # tiles go to the other ranks' GPUs as they are made
    expected = F.silu(x.float() @ up.t()) @ down.t()
    error = ((y.float() - expected).norm() / expected.norm()).item()
    token = weft.linear_all_reduce(hidden[:1], my_down)  # few rows: a kernel of its own
    assert error < 0.03 and torch.allclose(token.float(), y[:1].float(), atol=0.1), error
    if rank == 0:
        print(f"ok {ranks} ranks, {error:.1e} from float32")


if __name__ == "__main__":
    main()
