"""A row-parallel layer: every rank has k of the columns, and all get the sum. Compared with F.linear and gloo.

    torchrun --standalone --nproc-per-node 2 python/examples/01_linear_all_reduce.py
"""

import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft


def seconds(call, times=20):
    call()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def main():
    dist.init_process_group("gloo")
    weft.init()
    torch.manual_seed(dist.get_rank())
    x, w = torch.randn(512, 128), torch.randn(1024, 128)

    def plain():
        y = F.linear(x, w)
        dist.all_reduce(y)
        return y

    with torch.no_grad():
        difference = (weft.linear_all_reduce(x, w) - plain()).abs().max().item()
        weft_s, gloo_s = seconds(lambda: weft.linear_all_reduce(x, w)), seconds(plain)
    if weft.rank() == 0:
        print(f"gloo {gloo_s * 1e3:.2f} ms, Weft {weft_s * 1e3:.2f} ms, largest difference {difference:.1e}")
        print(weft.explain(weft.linear_all_reduce, x, w))
    assert difference < 1e-4


if __name__ == "__main__":
    main()
