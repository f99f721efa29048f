"""Ops on tensors of a GPU that the ranks share through MPS, against plain torch on the same GPU: what other ranks hold is
drawn from their seeds, so every rank knows what it should get."""

import os

import torch
import torch.nn.functional as F

import weft


def _join():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    weft.init()
    return weft.rank(), weft.size()


def _drawn(rank, *shape, seed=0, dtype=torch.bfloat16):
    draw = torch.Generator().manual_seed(1000 * seed + rank)
    return (torch.rand(*shape, generator=draw) - 0.5).to(dtype).cuda()


def _close(found, expected, what):
    error = (found.float() - expected).norm() / expected.norm()
    assert found.shape == expected.shape and error < 0.02, f"{what}: {error}"


def _sum(x, w, m):
    return sum(a[:m].float() @ b.float().t() for a, b in zip(x, w))


def gpu_agreement():
    rank, ranks = _join()
    for m, n, k in ((512, 264, 72), (1, 512, 96), (16, 1024, 256), (40, 24, 8), (2048, 1024, 512)):
        for seed in range(3):
            x = [_drawn(r, m * ranks, k, seed=seed) for r in range(ranks)]
            w = [_drawn(r, n, k, seed=10 + seed) for r in range(ranks)]
            bias, residual = _drawn(0, n, seed=20), _drawn(0, m * ranks, n, seed=21)
            whole = sum(a.float() @ b.float().t() for a, b in zip(x, w))
            own = slice(rank * m, (rank + 1) * m)
            _close(weft.linear_all_reduce(x[rank], w[rank]), whole, "linear_all_reduce")
            _close(weft.linear_all_reduce(x[rank][:m], w[rank]), _sum(x, w, m), "few")
            _close(weft.linear_reduce_scatter(x[rank], w[rank]), whole[own], "linear_reduce_scatter")
            _close(weft.linear_reduce_scatter(x[rank], w[rank], alias=True), whole[own], "alias")
            finished = F.silu(whole + bias.float()) + residual.float()
            made = weft.linear_all_reduce(x[rank], w[rank], bias, activation="silu", residual=residual)
            _close(made, finished, "with an epilogue")
            # Those that begin at no multiple of 4 bytes are read in float32.
            odd = [torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape) for t in (bias, residual[own])]
            for b, r in ((bias, residual[own]), (odd[0], residual[own]), (bias, odd[1]), odd):
                made = weft.linear_reduce_scatter(x[rank], w[rank], b, activation="silu", residual=r)
                _close(made, finished[own], "with an epilogue of narrow and wide parts")
            _close(weft.linear_all_reduce(x[rank][:m], w[rank], bias), _sum(x, w, m) + bias.float(), "with a bias")
            gathered = torch.cat([a[:m] for a in x]).float() @ w[rank].float().t() + bias.float()
            _close(weft.all_gather_linear(x[rank][:m].contiguous(), w[rank], bias), gathered, "gathered, with a bias")
            rows = torch.cat([a[:m] for a in x]).float()
            _close(weft.all_gather_linear(x[rank][:m].contiguous(), w[rank]), rows @ w[rank].float().t(), "all_gather_linear")


def gpu_collectives():
    rank, ranks = _join()
    for m, n in ((ranks * 100, 264), (ranks, 16), (ranks * 3, 4096)):
        x = [_drawn(r, m, n, seed=3) for r in range(ranks)]
        wide = [_drawn(r, m, n, seed=4, dtype=torch.float32) for r in range(ranks)]
        part = slice(rank * m // ranks, (rank + 1) * m // ranks)
        whole = sum(a.float() for a in x)
        _close(weft.all_reduce(x[rank]), whole, "all_reduce")
        _close(weft.reduce_scatter(x[rank]), whole[part], "reduce_scatter")
        exact = sum(a.double() for a in wide)
        for found, wanted in ((weft.all_reduce(wide[rank]), exact), (weft.reduce_scatter(wide[rank]), exact[part])):
            assert found.dtype is torch.float32 and torch.allclose(found.double(), wanted, rtol=0, atol=1e-6), "float32"
        for rows in (x, wide):  # to the last bit
            assert torch.equal(weft.all_gather(rows[rank]), torch.cat(rows)), "all_gather"
            assert torch.equal(weft.all_to_all(rows[rank]), torch.cat([a[part] for a in rows])), "all_to_all"
    # Bits that are no numbers travel as they are.
    odd = torch.arange(64 * 64, dtype=torch.int32).mul(104729).view(torch.float32).view(64, 64).cuda()
    assert torch.equal(weft.all_gather(odd).view(torch.int32), torch.cat([odd] * ranks).view(torch.int32))


def gpu_counts():
    rank, ranks = _join()
    k, n = 72, 264
    w = [_drawn(r, n, k, seed=5) for r in range(ranks)]
    for turn in range(4):
        counts = [[(7 * turn + 31 * s + 17 * d) % 90 for d in range(ranks)] for s in range(ranks)]
        x = [_drawn(r, sum(counts[r]), k, seed=6 + turn) for r in range(ranks)]
        parts = [a.split(c) for a, c in zip(x, counts)]
        moved = torch.cat([parts[s][rank] for s in range(ranks)])
        assert torch.equal(weft.all_to_all(x[rank], send=counts[rank]), moved)
        made = weft.linear_all_to_all(x[rank], w[rank], counts[rank])
        expected = torch.cat([parts[s][rank].float() @ w[s].float().t() for s in range(ranks)])
        _close(made, expected, "linear_all_to_all")
        receive = [counts[s][rank] for s in range(ranks)]
        for capacity in (90, 128):  # nobody asks; parts are packed one by one
            given = {"send": counts[rank], "receive": receive, "capacity": capacity}
            assert torch.equal(weft.all_to_all(x[rank], **given), moved), "with a capacity"
            assert torch.equal(weft.linear_all_to_all(x[rank], w[rank], **given), made), "with a capacity"
        bias = _drawn(0, n, seed=6)
        with_bias = weft.linear_all_to_all(x[rank], w[rank], **given, bias=bias)
        _close(with_bias, expected + bias.float(), "linear_all_to_all with a bias")
    # Whole parts are one copy; then whole ones beside others, and none; float32 goes as it is.
    for sizes in ([64] * ranks, [64] * (ranks - 1) + [3], [0] + [64] * (ranks - 1), [0] * (ranks - 1) + [64], [0] * ranks):
        rows = [_drawn(r, sum(sizes), n, seed=7, dtype=torch.float32) for r in range(ranks)]
        moved = torch.cat([a.split(sizes)[rank] for a in rows])
        got = weft.all_to_all(rows[rank], send=sizes, receive=[sizes[rank]] * ranks, capacity=64)
        assert torch.equal(got, moved), sizes
        assert torch.equal(weft.all_to_all(rows[rank], send=sizes), moved), sizes
    leaf = x[rank].clone().requires_grad_()
    weft.linear_all_to_all(leaf, w[rank], **given).sum().backward()
    _close(leaf.grad, torch.ones_like(leaf.float()[:, :1]) * w[rank].float().sum(0), "gradient of x")
    try:  # alone, and before anything is enqueued: the next call finds all ranks in step
        if rank == 0:
            weft.all_to_all(x[0], send=counts[0], receive=receive, capacity=1)
            raise SystemExit("nobody noticed")
    except RuntimeError as error:
        assert "but capacity is 1" in str(error), error
    assert torch.equal(weft.linear_all_to_all(x[rank], w[rank], counts[rank]), made), "all ranks go on"


def gpu_bags():
    rank, ranks = _join()
    tables_of = [1 + r % 2 for r in range(ranks)]
    batch, dim, rows = 64 * ranks, 12, 50

    def bags_of(r, t, seed):
        draw = torch.Generator().manual_seed(100 * seed + 10 * r + t)
        lengths = torch.randint(0, 5, (batch,), generator=draw)
        indices = torch.randint(0, rows, (int(lengths.sum()),), generator=draw)
        return indices.cuda(), torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])[:-1].cuda()

    for mode in ("sum", "mean"):
        for seed in range(3):
            tables = [[_drawn(10 * r + t, rows, dim, seed=7, dtype=torch.float32) for t in range(tables_of[r])] for r in range(ranks)]
            bags = [[bags_of(r, t, seed) for t in range(tables_of[r])] for r in range(ranks)]
            for one in tables[rank]:
                one.requires_grad_()
            found = weft.embedding_bag_all_to_all(
                tables[rank], [i for i, _ in bags[rank]], [o for _, o in bags[rank]], mode=mode, tables_of=tables_of
            )
            every = [F.embedding_bag(i, tables[r][t], o, mode=mode) for r in range(ranks) for t, (i, o) in enumerate(bags[r])]
            own = slice(rank * batch // ranks, (rank + 1) * batch // ranks)
            torch.testing.assert_close(found, torch.cat(every, dim=1)[own])
            weights = torch.cat([_drawn(r, batch // ranks, sum(tables_of) * dim, seed=8, dtype=torch.float32) for r in range(ranks)])
            (found * weights[own]).sum().backward()
            kept = [one.grad.clone() for one in tables[rank]]
            for one in tables[rank]:
                one.grad = None
            (torch.cat(every, dim=1) * weights).sum().backward()
            for one, grad in zip(tables[rank], kept):
                torch.testing.assert_close(grad, one.grad)
            _bags_of_all_tables(tables[rank], bags[rank], found, weights[own], kept, mode, tables_of)
    _square_bags(rank, ranks, batch, rows, dim)
    wild = [i.clone() for i, _ in bags[rank]]
    wild[0][0] = rows + 7
    try:
        for _ in range(2):
            weft.embedding_bag_all_to_all(tables[rank], wild, [o for _, o in bags[rank]], mode="mean", tables_of=tables_of)
            torch.cuda.synchronize()
        raise SystemExit("nobody noticed")
    except RuntimeError as error:
        assert f"has no row {rows + 7}" in str(error), error


def _bags_of_all_tables(tables, bags, expected, weights, gradients, mode, tables_of):
    """The same in one tensor for all tables."""
    indices = torch.cat([i for i, _ in bags])
    lengths = torch.cat([torch.cat([o, o.new_tensor([i.numel()])]).diff() for i, o in bags])
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    for sparse in (False, True):
        for one in tables:
            one.grad = None
        found = weft.embedding_bag_all_to_all(tables, indices, offsets, mode=mode, tables_of=tables_of, sparse=sparse)
        assert torch.equal(found, expected)
        (found * weights).sum().backward()
        for one, grad in zip(tables, gradients):
            assert one.grad.is_sparse == sparse
            torch.testing.assert_close(one.grad.to_dense(), grad)


def _square_bags(rank, ranks, batch, rows, dim):
    """(batch, bag) and no offsets: twice, in another stream, and while a graph is recorded that is replayed much later."""
    tables = [[_drawn(10 * r + t, rows, dim, seed=9, dtype=torch.float32) for t in range(2)] for r in range(ranks)]

    def drawn(r, t, seed):
        draw = torch.Generator().manual_seed(100 * seed + 10 * r + t)
        return torch.randint(0, rows, (batch, 3 + t), generator=draw).cuda()

    def pooled(seed):
        every = [F.embedding_bag(drawn(r, t, seed), tables[r][t], mode="sum") for r in range(ranks) for t in range(2)]
        return torch.cat(every, dim=1)[rank * batch // ranks : (rank + 1) * batch // ranks]

    side, mine = torch.cuda.Stream(), [drawn(rank, t, 0) for t in range(2)]
    begins = [torch.arange(0, i.numel(), i.shape[1], device="cuda") for i in mine]
    for _ in range(2):
        torch.testing.assert_close(weft.embedding_bag_all_to_all(tables[rank], mine), pooled(0))
        flat = [i.flatten() for i in mine]
        torch.testing.assert_close(weft.embedding_bag_all_to_all(tables[rank], flat, begins), pooled(0))
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        found = weft.embedding_bag_all_to_all(tables[rank], mine)
    torch.cuda.synchronize()
    torch.testing.assert_close(found, pooled(0))
    kept, graph = dict(weft._ops._kept_offsets), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        found = weft.embedding_bag_all_to_all(tables[rank], mine)
        flat = weft.embedding_bag_all_to_all(tables[rank], [i.flatten() for i in mine], begins)
    assert weft._ops._kept_offsets == kept, "a graph's offsets were kept"
    for size in range(100):  # what was kept goes, and others have its memory
        weft._ops._offsets_of(batch, size, mine[0])
    for seed in (1, 2):
        for t, indices in enumerate(mine):
            indices.copy_(drawn(rank, t, seed))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(found, pooled(seed))
        torch.testing.assert_close(flat, pooled(seed))


def gpu_gradients():
    rank, ranks = _join()
    m, n, k = 128 * ranks, 264, 72
    x = [_drawn(r, m, k, seed=11).requires_grad_() for r in range(ranks)]
    w = [_drawn(r, n, k, seed=12).requires_grad_() for r in range(ranks)]
    y = weft.linear_reduce_scatter(x[rank], w[rank])
    own = slice(rank * m // ranks, (rank + 1) * m // ranks)
    weights = [_drawn(r, m // ranks, n, seed=13) for r in range(ranks)]
    (y * weights[rank]).sum().backward()
    whole = torch.cat(weights).float()
    _close(x[rank].grad, whole @ w[rank].detach().float(), "gradient of x")
    _close(w[rank].grad, whole.t() @ x[rank].detach().float(), "gradient of w")
    assert own.stop <= m


def gpu_graph():
    """Recorded once, replayed with other inputs in the same memory."""
    rank, ranks = _join()
    m, n, k = 256, 512, 128
    x, w = _drawn(rank, m, k, seed=14), _drawn(rank, n, k, seed=15)
    few = _drawn(rank, 4, 128, seed=16)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            weft.linear_all_reduce(x, w), weft.linear_all_reduce(few, w)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        y, z = weft.linear_all_reduce(x, w), weft.linear_all_reduce(few, w)
    for seed in (20, 21, 22):
        x.copy_(_drawn(rank, m, k, seed=seed)), few.copy_(_drawn(rank, 4, 128, seed=seed))
        graph.replay()
        torch.cuda.synchronize()
        ws = [_drawn(r, n, k, seed=15).float().t() for r in range(ranks)]
        _close(y, sum(_drawn(r, m, k, seed=seed).float() @ ws[r] for r in range(ranks)), "replayed")
        _close(z, sum(_drawn(r, 4, 128, seed=seed).float() @ ws[r] for r in range(ranks)), "replayed, few rows")


def gpu_bad_input():
    rank, _ = _join()
    x, w = _drawn(rank, 64, 72), _drawn(rank, 264, 72)
    for wrong, words in (
        (lambda: weft.linear_all_reduce(x.float(), w.float()), "is bfloat16: convert it"),
        (lambda: weft.linear_all_reduce(x, w.cpu()), "w is not on the GPU of x"),
        (lambda: weft.linear_all_reduce(x[:, :71].contiguous(), w[:, :71].contiguous()), "multiples of 8"),
        (lambda: weft.linear_all_reduce(x, w, wire="int8"), "travel as bf16"),
        (lambda: weft.linear_reduce_scatter(x[:63], w), "cannot share"),
        (lambda: weft.run_plan({}, x), "on a GPU"),
    ):
        try:
            wrong()
            raise SystemExit(f"nobody noticed: {words}")
        except RuntimeError as error:
            assert words in str(error), error
    weft.linear_all_reduce(x, w)
    torch.cuda.synchronize()
