"""An unmodified block of DTensors under torch.compile(backend="weft"): its collectives become part of its products.

    torchrun --standalone --nproc-per-node 2 python/examples/04_compile.py
"""

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import weft


class Mlp(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


dist.init_process_group("gloo")
weft.init()
mesh = dist.init_device_mesh("cpu", (weft.size(),))
torch.manual_seed(0)
# Each rank holds part of every sequence: rows are gathered before `up` and summed and cut behind `down`.
plan = {"up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1))}
model = torch.compile(parallelize_module(Mlp(64), mesh, plan), backend="weft", fullgraph=True)
x = torch.randn(2, 32 // weft.size(), 64, requires_grad=True)
model(x).square().mean().backward()
if weft.rank() == 0:
    print("\n".join(weft.collectives()))
dist.destroy_process_group()
