"""DistributedDataParallel with Weft as the backend of torch.distributed: nothing else changes.

    torchrun --standalone --nproc-per-node 2 python/examples/05_ddp.py
"""

import torch
import torch.distributed as dist

import weft  # noqa: F401 (registers the backend "weft")

dist.init_process_group("cpu:weft")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model = torch.nn.parallel.DistributedDataParallel(model)
optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
torch.manual_seed(dist.get_rank())  # each rank has samples of its own
x = torch.randn(256, 32)
y = x[:, :4].sum(1, keepdim=True)
for step in range(1, 61):
    optimiser.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimiser.step()
    if step % 20 == 0 and dist.get_rank() == 0:
        print(f"step {step}: loss {loss.item():.4f}")
dist.destroy_process_group()
