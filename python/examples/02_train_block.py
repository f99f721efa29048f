"""A tensor-parallel block with sequence parallelism, trained: rows are split between layers, columns within.

Every rank has its rows of the batch. The first layer gathers all rows and multiplies them by this rank's columns of
`up`; the second multiplies by this rank's part of `down`, and sums go to the rows' owners. Backward is the mirror image.

    torchrun --standalone --nproc-per-node 2 python/examples/02_train_block.py
"""

import torch
import torch.distributed as dist

import weft


class Block(torch.nn.Module):
    def __init__(self, width, hidden, ranks):
        super().__init__()
        self.up = torch.nn.Parameter(torch.randn(hidden // ranks, width) / width**0.5)
        self.down = torch.nn.Parameter(torch.randn(width, hidden // ranks) / hidden**0.5)

    def forward(self, rows):
        hidden = torch.nn.functional.gelu(weft.all_gather_linear(rows, self.up))
        return rows + weft.linear_reduce_scatter(hidden, self.down)


def main():
    dist.init_process_group("gloo")
    weft.init()
    torch.manual_seed(weft.rank())
    block = Block(width=64, hidden=256, ranks=weft.size())
    optimizer = torch.optim.AdamW(block.parameters(), lr=3e-3)
    rows = torch.randn(32, 64)
    wanted = rows.roll(1, dims=1)
    first = last = None
    for step in range(60):
        loss = (block(rows) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = weft.all_reduce(loss.detach().reshape(1, 1)).item() / weft.size()
        first = last if first is None else first
        if weft.rank() == 0 and step % 20 == 0:
            print(f"step {step:3}  loss {last:.4f}")
    assert last < first / 2, (first, last)


if __name__ == "__main__":
    main()
