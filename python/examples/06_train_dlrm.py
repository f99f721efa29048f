"""A recommendation model (DLRM), trained: tables are split over the ranks, and so are samples.

Every rank pools its own tables for the whole batch; the op sends each sample's vectors to the rank that has the sample,
and backward sends their gradients back to the tables.

    torchrun --standalone --nproc-per-node 2 python/examples/06_train_dlrm.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft

TABLES, ROWS, DIM, BAG, BATCH = 3, 200, 16, 4, 256  # tables of a rank; samples of all ranks

class Dlrm(torch.nn.Module):
    def __init__(self, ranks):
        super().__init__()
        vectors = 1 + TABLES * ranks
        self.bottom = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, DIM))
        self.top = torch.nn.Sequential(torch.nn.Linear(DIM + vectors**2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def forward(self, dense, pooled):
        x = self.bottom(dense)
        vectors = torch.cat([x.unsqueeze(1), pooled.unflatten(1, (-1, DIM))], 1)
        return self.top(torch.cat([x, (vectors @ vectors.transpose(1, 2)).flatten(1)], 1)).squeeze(1)


def main():
    dist.init_process_group("gloo")
    weft.init()
    ranks, me, mine = weft.size(), weft.rank(), BATCH // weft.size()
    torch.manual_seed(0)
    model = Dlrm(ranks)
    torch.manual_seed(1 + me)
    tables = [(0.1 * torch.randn(ROWS, DIM)).requires_grad_() for _ in range(TABLES)]  # this rank's alone
    indices = [torch.randint(0, ROWS, (BATCH, BAG)) for _ in range(TABLES)]
    dense = torch.randn(mine, 8)
    # A click depends on the dense features and on which rows of rank 0's first table a sample has.
    liked = weft.all_gather((indices[0] % 2).float())[:BATCH].sum(1) - BAG / 2
    clicks = ((liked[me * mine : (me + 1) * mine] + dense[:, 0]) > 0).float()
    optimizer = torch.optim.Adam([*model.parameters(), *tables], lr=0.002)
    for step in range(1, 61):
        logits = model(dense, weft.embedding_bag_all_to_all(tables, indices))
        loss = F.binary_cross_entropy_with_logits(logits, clicks) / ranks  # ranks' losses add up to the mean
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():  # tables have the gradients of all samples already
            parameter.grad = weft.all_reduce(parameter.grad.reshape(1, -1)).reshape(parameter.shape)
        optimizer.step()
        if step % 20 == 0 or step == 1:
            total = weft.all_reduce(loss.detach().reshape(1, 1)).item()
            if me == 0:
                print(f"step {step:3}  loss {total:.4f}")
    assert total < 0.3, total


if __name__ == "__main__":
    main()
