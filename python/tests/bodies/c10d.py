"""torch.distributed's own calls over the backend "weft"."""

import torch
import torch.distributed as dist

import weft

from bodies.plain import counts_of, inputs, near


def c10d():
    """torch.distributed's own calls over the backend "weft", beside gloo's."""
    dist.init_process_group("cpu:weft")
    gloo = dist.new_group(backend="gloo")
    ranks, me = dist.get_world_size(), dist.get_rank()

    def both(call, *sizes, dtype=torch.float32):
        made = []
        for group in (None, gloo):
            made.append(call((inputs(*sizes) * 8).to(dtype), group))
        near(made[0].double(), made[1].double(), f"{call.__name__} {sizes} {dtype}")

    def summed(op):
        def all_reduce(x, group):
            dist.all_reduce(x, op, group=group)
            return x

        return all_reduce

    def gather(x, group):
        out = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(out, x, group=group)
        return torch.cat(out)

    def gather_base(x, group):
        out = x.new_empty(ranks * x.shape[0], *x.shape[1:])
        dist.all_gather_into_tensor(out, x, group=group)
        return out

    def scatter(x, group):
        out = x.new_empty(x.shape[0] // ranks, *x.shape[1:])
        dist.reduce_scatter_tensor(out, x, group=group)
        return out

    def exchange(x, group):
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x, group=group)
        return out

    def from_zero(x, group):
        dist.broadcast(x, 0, group=group)
        return x

    for sizes in [(6 * ranks,), (ranks, 5), (4 * ranks, 3, 1024)]:
        for call in (summed(dist.ReduceOp.SUM), gather, gather_base, scatter, exchange, from_zero):
            both(call, *sizes)
    counts = counts_of(ranks, "some")
    send, receive = counts[me], [row[me] for row in counts]
    for width, dtype in [((5,), torch.float32), ((2, 3), torch.float32), ((), torch.float32), ((5,), torch.float64)]:
        x = inputs(sum(send), *width).to(dtype)
        made = [x.new_empty(sum(receive), *width) for _ in range(2)]
        for out, group in zip(made, (None, gloo)):
            dist.all_to_all_single(out, x, receive, send, group=group)
        assert torch.equal(*made), (width, dtype)
    both(summed(dist.ReduceOp.MAX), 6)
    both(summed(dist.ReduceOp.SUM), 6, dtype=torch.int64)
    both(exchange, 6 * ranks, dtype=torch.int64)
    x = torch.full((6,), float(me))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert torch.equal(x, torch.full((6,), (ranks - 1) / 2)), x
    given = [None] * ranks
    dist.all_gather_object(given, {"rank": me})
    assert given == [{"rank": rank} for rank in range(ranks)]
    dist.barrier()
    weft.init()  # the backend has joined: this is no second time
    assert torch.equal(weft.all_reduce(torch.ones(1, 2)), torch.full((1, 2), float(ranks)))
    pair = dist.new_group([0, 1])
    if me < 2:
        y = torch.ones(4)
        dist.all_reduce(y, group=pair)
        assert torch.equal(y, torch.full((4,), 2.0))
    turned = inputs(4, 6).t()  # not one behind the other
    expected = turned.clone()
    dist.all_reduce(turned), dist.all_reduce(expected, group=gloo)
    near(turned, expected, "turned")
