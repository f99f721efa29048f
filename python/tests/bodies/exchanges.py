"""Exchanges with counts at run time and embedding bags, against plain torch and gloo."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft

from bodies.plain import counts_of, inputs, near, plain_bags, plain_exchange, refused, replicated


def counted():
    """Exchanges with counts at run time, values and gradients, against plain torch and gloo."""
    dist.init_process_group("gloo")
    weft.init()
    ranks, me = weft.size(), weft.rank()
    for pattern in ("same", "some", "one", "none", "some"):
        counts = counts_of(ranks, pattern)
        send, receive = counts[me], [row[me] for row in counts]
        for n, k, has_bias in [(6, 10, True), (512, 64, True), (512, 64, False)]:
            x, w, bias = inputs(sum(send), k), inputs(n, k, seed=1), inputs(n, seed=2) if has_bias else None
            mine, plain = ([t if t is None else t.clone().requires_grad_() for t in (x, w, bias)] for _ in range(2))
            y = weft.linear_all_to_all(mine[0], mine[1], send, receive if n == 6 else None, bias=mine[2])
            expected = plain_exchange(F.linear(*plain), send, receive)
            assert y.shape == expected.shape
            grad = inputs(*y.shape, seed=3)
            y.backward(grad), expected.backward(grad)
            if sum(map(sum, counts)) == 0:
                continue
            pairs = [(y, expected)] + [(a.grad, b.grad) for a, b in zip(mine, plain) if a is not None]
            for i, (got, wanted) in enumerate(pairs):
                if wanted.numel() > 0 and wanted.abs().max() > 0:
                    near(got, wanted, f"linear_all_to_all {pattern} {n} {k}: {i}")
        rows = inputs(sum(send), 3, 2)
        moved = weft.all_to_all(rows, send=send)
        assert torch.equal(moved.flatten(1), plain_exchange(rows.flatten(1), send, receive))
        assert torch.equal(weft.all_to_all(moved, receive=torch.tensor(send)), rows), "and back"
        given = {"receive": receive, "capacity": 1 + max(map(max, counts))}  # nobody asks
        assert torch.equal(weft.all_to_all(rows, send=send, **given), moved)
        leaf, wide = rows.flatten(1).requires_grad_(), replicated(5, 6)
        made = weft.linear_all_to_all(leaf, wide, send, **given)
        assert torch.equal(made, weft.linear_all_to_all(leaf, wide, send, capacity=given["capacity"]))
        grad = inputs(*made.shape, seed=4)
        made.backward(grad)
        if sum(send) > 0:
            near(leaf.grad, plain_exchange(grad, receive, send) @ wide, f"{pattern} with a capacity: gradient")
        else:
            plain_exchange(grad, receive, send)


def bags():
    """Pooled tables and their exchange, values and gradients, against plain torch and gloo."""
    dist.init_process_group("gloo")
    weft.init()
    ranks, me = weft.size(), weft.rank()
    for tables_of, batch, mode in [([2] * ranks, 4, "sum"), ([r + 1 for r in range(ranks)], 32, "mean")]:
        batch, generator = batch * ranks, torch.Generator().manual_seed(me)
        sizes = [3 + 5 * t for t in range(tables_of[me])]
        lengths = [torch.randint(0, 5, (batch,), generator=generator) for _ in sizes]
        indices = [torch.randint(0, rows, (int(n.sum()),), generator=generator) for rows, n in zip(sizes, lengths)]
        offsets = [n.cumsum(0) - n for n in lengths]
        mine, plain = ([inputs(rows, 16, seed=t).requires_grad_() for t, rows in enumerate(sizes)] for _ in range(2))
        y = weft.embedding_bag_all_to_all(mine, indices, offsets, mode=mode, tables_of=tables_of)
        expected = plain_bags(plain, indices, offsets, mode, tables_of)
        near(y, expected, f"bags {mode}")
        grad = inputs(*y.shape, seed=9)
        y.backward(grad), expected.backward(grad)
        for t, (got, wanted) in enumerate(zip(mine, plain)):
            near(got.grad, wanted.grad, f"bags {mode}: gradient of table {t}")
            got.grad = None
        weft.embedding_bag_all_to_all(
            mine, indices, offsets, mode=mode, tables_of=tables_of, sparse=True
        ).backward(grad)
        for t, (got, wanted) in enumerate(zip(mine, plain)):
            assert got.grad.is_sparse and got.grad._nnz() == indices[t].numel(), got.grad
            near(got.grad.to_dense(), wanted.grad, f"bags {mode}: sparse gradient of table {t}")
        _of_all_tables(mine, indices, lengths, grad, {"mode": mode, "tables_of": tables_of})
        torch.optim.SGD(mine, lr=0.5).step()
        for t, (got, wanted) in enumerate(zip(mine, plain)):
            near(got.detach(), (wanted - 0.5 * wanted.grad).detach(), f"bags {mode}: table {t} after a step")
    table = inputs(7, 8)
    square = torch.randint(0, 7, (2 * ranks, 3))
    near(
        weft.embedding_bag_all_to_all([table], [square]),
        plain_bags([table], [square.reshape(-1)], [torch.arange(0, 6 * ranks, 3)], "sum", [1] * ranks),
        "bags of one size",
    )


def _of_all_tables(tables, indices, lengths, grad, how):
    """One tensor of all tables' bags gives what a list of them gives, and the same gradients, dense and sparse."""
    together = torch.cat(indices), torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat(lengths).cumsum(0)])
    offsets = [n.cumsum(0) - n for n in lengths]
    apart = weft.embedding_bag_all_to_all(tables, indices, offsets, **how)
    for sparse in (False, True):
        copies = [table.detach().clone().requires_grad_() for table in tables]
        y = weft.embedding_bag_all_to_all(copies, *together, sparse=sparse, **how)
        assert torch.equal(y, apart)
        y.backward(grad)
        for t, (copy, table) in enumerate(zip(copies, tables)):
            assert copy.grad.is_sparse == sparse and (not sparse or copy.grad._nnz() == indices[t].numel())
            assert torch.equal(copy.grad.to_dense(), table.grad.to_dense()), (t, sparse)


def bags_of_one_size():
    """Their offsets are made once and kept, but never what a mode has made of them, nor without bound."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    weft.init()
    ranks, kept = weft.size(), weft._ops._kept_offsets
    tables, square = [torch.randn(7, 8) for _ in range(3)], torch.randint(0, 7, (2 * ranks, 3))
    others = [square, square.int(), torch.randint(0, 7, (2 * ranks, 2))]
    with FakeTensorMode() as fakes:
        fake = fakes.from_tensor(square)
        weft._ops._offsets_of(*square.shape, fake), weft._ops._offsets_of(*square.shape, square)
    assert not kept, kept
    with torch.inference_mode():
        first = weft.embedding_bag_all_to_all(tables, others)
    assert sorted(size for _, size, _ in kept) == [2, 3], kept
    with fakes:
        assert type(weft._ops._offsets_of(*square.shape, fake)) is type(fake), "one of numbers among fakes"
    begins = list(kept.values())
    again = weft.embedding_bag_all_to_all([table.requires_grad_() for table in tables], others)
    again.sum().backward()
    assert torch.equal(first, again) and tables[2].grad is not None
    assert all(any(one is other for other in begins) for one in kept.values()), "they were made anew"
    rows = [torch.arange(0, i.numel(), i.shape[1]) for i in others]
    flat = weft.embedding_bag_all_to_all(tables, [i.reshape(-1) for i in others], rows)
    assert torch.equal(again, flat)
    alike = [square, square.flip(0), square.flip(1)]
    assert torch.equal(
        weft.embedding_bag_all_to_all(tables, torch.stack(alike)), weft.embedding_bag_all_to_all(tables, alike)
    )
    for batch in range(200):
        weft._ops._offsets_of(batch, 3, square)
    assert len(kept) == weft._ops._MOST_KEPT and (199, 3, square.device) in kept


def bad_counts():
    """What one rank has wrong all ranks refuse, and go on."""
    weft.init()
    ranks, me = weft.size(), weft.rank()
    x, w = torch.ones(2, 8), torch.ones(3, 8)
    refused(lambda: weft.linear_all_to_all(x, w, [1 + me, 1]), "x of rank 1 has 2 rows, but 3 are to be sent")
    refused(lambda: weft.linear_all_to_all(x, w, [1, 1], [1, 1 + me]), "rank 1 has 1 rows for rank 1, which expects 2")
    refused(lambda: weft.linear_all_to_all(x, w, [2] * (me + 1)), "rank 0 gives 1 counts as send")
    refused(lambda: weft.all_to_all(x, send=[3, -1] if me else [1, 1]), "rank 1 has -1 among the counts of send")
    refused(lambda: torch.ops.weft.all_to_all_counts(x, [], [], ""), "nobody says how many rows go from rank 0")
    few, most = {"send": [2, 0], "receive": [2, 0]}, "rank 0 has 2 rows for rank 0, but capacity is 1"
    refused(lambda: weft.all_to_all(x, send=[2, 0], capacity=1), most)
    refused(lambda: weft.all_to_all(x, send=[1, 1], capacity=2 + me), "capacity of rank 0 is 2 and of rank 1 3")
    refused(lambda: weft.all_to_all(x, send=[1, 1], capacity=-3), "capacity is -1; give the most rows")
    if me == 0:  # alone: nobody was asked, and nothing is on its way
        refused(lambda: weft.all_to_all(x, **few, capacity=1), most)
        refused(lambda: weft.all_to_all(x, **few, capacity=-3), "capacity is -3")
        refused(lambda: weft.all_to_all(x, send=[1, 1], receive=[2, 0], capacity=2), "rank 0 has 1 rows for rank 0")
        refused(lambda: weft.all_to_all(x, send=[1, 0], receive=[1, 0], capacity=2), "x of rank 0 has 2 rows, but 1 are")
        refused(lambda: weft.all_to_all(x, send=[1], receive=[1, 0], capacity=2), "gives 1 counts as send")
        refused(lambda: weft.all_to_all(x, send=[0, 2], receive=[0, 3], capacity=2), "rank 1 has 3 rows for rank 0")
    assert torch.equal(weft.all_to_all(x + me, send=[1, 1], receive=[1, 1], capacity=2)[:, 0], torch.tensor([1.0, 2.0]))
    refused(lambda: weft.linear_all_to_all(x.double(), w, [1, 1]), "not float32")
    refused(lambda: weft.linear_all_to_all(torch.ones(2, 2, 8), w, [1, 1]), "3 dimensions")
    table, indices = torch.ones(4, 8), torch.zeros(2, 1, dtype=torch.int64)
    bags = weft.embedding_bag_all_to_all
    refused(lambda: bags([table], [indices + 9 * me]), "index 0" if me else "rank 1 refused its arguments")
    said = "rank 0 has 1 tables, but tables_of says 2" if me else "rank 1 has 2 tables, but tables_of says 1"
    refused(lambda: bags([table] * (1 + me), [indices] * (1 + me)), said)
    refused(lambda: bags([torch.ones(4, 8 + me)], [indices]), "rank 1 has 9 columns and 2 samples, rank 0 8 and 2")
    refused(lambda: bags([table], [indices[:1]]), "1 samples, which 2 ranks cannot share; pad to 2")
    refused(lambda: bags([table], [indices.flatten()]), "without offsets give (batch, bag)")
    refused(lambda: bags([table], indices), "indices have 2 dimensions; without offsets give (tables, batch, bag)")
    three, values, of_all = [table] * 3, torch.zeros(6, dtype=torch.int64), torch.arange(7)
    given = {"tables_of": [3] * ranks}
    refused(lambda: bags(three, values, of_all[:6], **given), "6 offsets for all of 3 tables; give tables * batch + 1")
    refused(lambda: bags(three, values, of_all[1:].repeat_interleave(2)[:7], **given), "indices 1 to 2, of 6")
    refused(lambda: bags(three, values, of_all // 2, **given), "bags of table 2 are those of indices 2 to 3, of 6")
    refused(lambda: bags(three, [values] * 2, [of_all] * 2, **given), "3 tables, but indices for 2")
    refused(lambda: bags(three, values, of_all * 2, **given), 'of table "1" is 8, but there are 6 indices')
    refused(lambda: bags([table], [indices], mode="max"), "max")
    refused(lambda: bags([table.double()], [indices]), "not float32")
    refused(lambda: weft.explain(bags, x), "one way, fused")
    assert torch.equal(weft.linear_all_to_all(x, w, [1, 1]), torch.full((2, 3), 8.0)), "all ranks are alive"
    assert torch.equal(bags([table], [indices]), torch.ones(1, 8 * ranks))


def counts_compiled():
    """torch.compile traces exchanges and bags, forward and backward, in one piece."""
    weft.init()
    ranks = weft.size()
    x, w = torch.randn(2 * ranks, 16), torch.randn(8, 16)
    tables = [torch.randn(5, 4).requires_grad_() for _ in range(2)]
    indices = [torch.randint(0, 5, (ranks, 3)) for _ in range(2)]
    together = torch.stack(indices)

    def both(rows):
        moved = weft.linear_all_to_all(rows, w, [2] * ranks, [2] * ranks)
        pooled = weft.embedding_bag_all_to_all(tables, indices) * weft.embedding_bag_all_to_all(tables, together)
        return moved.sum() + pooled.square().sum()

    gradients = []
    for call in (both, torch.compile(both, backend="aot_eager", fullgraph=True)):
        leaf = x.clone().requires_grad_()
        value = call(leaf)
        value.backward()
        gradients.append([value.detach().reshape(1), leaf.grad, *(table.grad for table in tables)])
        for table in tables:
            table.grad = None
    for eager, compiled in zip(*gradients):
        near(compiled, eager, "compiled")
