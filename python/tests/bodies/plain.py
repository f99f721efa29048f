"""What bodies share: tensors, comparisons, and what programs write without Weft, with gloo's collectives."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

TOLERANCE = 1e-6  # of the largest element


def near(got, expected, what):
    assert got.shape == expected.shape, f"{what}: {tuple(got.shape)} instead of {tuple(expected.shape)}"
    worst = (got - expected).abs().max() / expected.abs().max()
    assert worst < TOLERANCE, f"{what}: off by {worst:.1e} of the largest element"


def refused(call, *words):
    try:
        call()
    except RuntimeError as error:
        said = str(error).splitlines()[0]
        assert all(word in said for word in words), said
        return said
    raise AssertionError(f"was not refused: {words}")


def inputs(*sizes, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(1000 * dist.get_rank() + seed if dist.is_initialized() else seed)
    return torch.randn(*sizes, generator=generator) * scale


def replicated(*sizes, seed=0):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def plain_all_reduce(x, w, bias):
    y = F.linear(x, w)
    dist.all_reduce(y)
    return y if bias is None else y + bias


def plain_reduce_scatter(x, w, bias):
    whole = F.linear(x, w)
    dist.all_reduce(whole)
    part = whole.chunk(dist.get_world_size())[dist.get_rank()].contiguous()
    return part if bias is None else part + bias


def gathered(x):
    out = x.new_empty(x.shape[0] * dist.get_world_size(), *x.shape[1:])
    dist.all_gather(list(out.chunk(dist.get_world_size())), x.contiguous())
    return out


def plain_exchange(rows, send, receive):
    """gloo's, with its gradient."""
    return Exchange.apply(rows, send, receive)


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, send, receive):
        ctx.send, ctx.receive = send, receive
        out = rows.new_empty(sum(receive), rows.shape[1])
        dist.all_to_all_single(out, rows.contiguous(), receive, send)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = grad.new_empty(sum(ctx.send), grad.shape[1])
        dist.all_to_all_single(out, grad.contiguous(), ctx.send, ctx.receive)
        return out, None, None


def counts_of(ranks, pattern):
    """Rows from each rank to each: none, the same, some, or one rank has nearly all."""
    if pattern == "some":
        return torch.randint(0, 9, (ranks, ranks), generator=torch.Generator().manual_seed(ranks)).tolist()
    return {
        "none": [[0] * ranks for _ in range(ranks)],
        "same": [[8] * ranks for _ in range(ranks)],
        "one": [[70 if to == 0 else int(to == source) for to in range(ranks)] for source in range(ranks)],
    }[pattern]


def plain_bags(tables, indices, offsets, mode, tables_of):
    """EmbeddingBag, gloo's exchange, and columns set side by side: what programs write without Weft."""
    ranks, dim = dist.get_world_size(), tables[0].shape[1]
    pooled = torch.cat([F.embedding_bag(i, t, o, mode=mode) for t, i, o in zip(tables, indices, offsets)], 1)
    samples = pooled.shape[0] // ranks
    send = [samples * len(tables)] * ranks
    receive = [samples * count for count in tables_of]
    rows = plain_exchange(pooled.reshape(-1, dim), send, receive)
    return torch.cat([part.reshape(samples, -1) for part in rows.split(receive)], 1)


class Mlp(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.up, self.gate = (torch.nn.Linear(16, 24, bias=bias) for _ in range(2))
        self.down = torch.nn.Linear(24, 16, bias=bias)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)) * self.gate(x))
