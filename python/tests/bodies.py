"""What the ranks of test_ranks.py run: each function is one rank's side, and asserts what that rank must see."""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives
import torch.nn.functional as F

import weft

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


# (rows, n, k, bias): one row, few rows, odd sizes, whole pages (a window), and three dimensions.
SHAPES = [(2, 64, 16, True), (1, 96, 40, False), (12, 50, 33, True), (64, 512, 128, True), (256, 256, 64, False)]


def agreement():
    dist.init_process_group("gloo")
    weft.init()
    ranks = weft.size()
    for m, n, k, has_bias in SHAPES:
        x, w = inputs(m * ranks, k), inputs(n, k, seed=1)
        bias = replicated(n) if has_bias else None
        for _ in range(3):  # compiled once, run again and again
            near(weft.linear_all_reduce(x, w, bias), plain_all_reduce(x, w, bias), f"all_reduce {m} {n} {k}")
            near(weft.linear_reduce_scatter(x, w, bias), plain_reduce_scatter(x, w, bias), f"scatter {m} {n} {k}")
            near(weft.all_gather_linear(x, w, bias), F.linear(gathered(x), w, bias), f"gather {m} {n} {k}")
    one = inputs(1, 256)
    near(weft.linear_all_reduce(one, inputs(1024, 256)), plain_all_reduce(one, inputs(1024, 256), None), "one row")
    deep, w = inputs(ranks * 2, 3, 16), inputs(8, 16, seed=1)
    near(weft.linear_reduce_scatter(deep, w), plain_reduce_scatter(deep, w, None), "three dimensions")
    near(weft.linear_all_reduce(deep, w), plain_all_reduce(deep, w, None), "three dimensions")
    turned = inputs(16, 24).t()  # columns one behind the other
    near(weft.linear_all_reduce(turned, inputs(8, 16)), plain_all_reduce(turned, inputs(8, 16), None), "turned x")


def collectives():
    dist.init_process_group("gloo")
    weft.init()
    ranks = weft.size()
    x = inputs(6 * ranks, 10)
    whole = x.clone()
    dist.all_reduce(whole)
    near(weft.all_reduce(x), whole, "all_reduce")
    near(weft.reduce_scatter(x), whole.chunk(ranks)[weft.rank()], "reduce_scatter")
    assert torch.equal(weft.all_gather(x), gathered(x))
    parts = [p.chunk(ranks)[weft.rank()] for p in gathered(x).chunk(ranks)]
    assert torch.equal(weft.all_to_all(x), torch.cat(parts))


def gradients():
    """Against plain torch on what is the same in all ranks: the gradient of the sum is the one of every rank."""
    dist.init_process_group("gloo")
    weft.init()
    ranks, me = weft.size(), weft.rank()
    for m, n, k in [(4, 32, 16), (64, 512, 128)]:
        x, w, bias = inputs(m * ranks, k), inputs(n, k, seed=1), replicated(n)
        leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
        same = replicated(m * ranks, n, seed=7)

        weft.linear_all_reduce(*leaves).backward(same)
        for leaf, expected in zip(leaves, (same @ w, same.t() @ x, same.sum(0))):
            near(leaf.grad, expected, "linear_all_reduce backward")
            leaf.grad = None

        part = same.chunk(ranks)[me].contiguous()
        weft.linear_reduce_scatter(*leaves).backward(part)
        for leaf, expected in zip(leaves, (same @ w, same.t() @ x, part.sum(0))):
            near(leaf.grad, expected, "linear_reduce_scatter backward")
            leaf.grad = None

        own = inputs(m * ranks * ranks, n, seed=3)  # differs by rank: columns of w are split
        weft.all_gather_linear(*leaves).backward(own)
        whole = own @ w
        dist.all_reduce(whole)
        for leaf, expected in zip(leaves, (whole.chunk(ranks)[me], own.t() @ gathered(x), own.sum(0))):
            near(leaf.grad, expected, "all_gather_linear backward")
            leaf.grad = None
    y = inputs(2 * ranks, 4).requires_grad_()
    weft.all_to_all(y).sum().backward()
    assert torch.equal(y.grad, torch.ones_like(y))


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


def epilogues():
    """Bias, activation and residual within the op, and sums in other formats, against plain torch and gloo."""
    dist.init_process_group("gloo")
    weft.init()
    ranks, me = weft.size(), weft.rank()
    activations = {
        None: lambda y: y,
        "relu": torch.relu,
        "silu": F.silu,
        "gelu": lambda y: F.gelu(y, approximate="tanh"),
    }
    for m, n, k in [(1, 40, 24), (64, 512, 32)]:
        x, w, bias = inputs(m * ranks, k), inputs(n, k, seed=1), replicated(n)
        plain = {
            weft.linear_all_reduce: plain_all_reduce(x, w, bias),
            weft.linear_reduce_scatter: plain_reduce_scatter(x, w, bias),
            weft.all_gather_linear: F.linear(gathered(x), w, bias),
        }
        for op, whole in plain.items():
            for name, function in activations.items():
                make = replicated if op is weft.linear_all_reduce else inputs
                residual = make(*whole.shape, seed=5)
                what = f"{op.__name__} {m} {n} {k} {name}"
                near(op(x, w, bias, activation=name), function(whole), what)
                near(op(x, w, bias, activation=name, residual=residual), function(whole) + residual, what)
        for wire, tolerance in (("bf16", 0.02), ("int8", 0.05)):
            for op in (weft.linear_all_reduce, weft.linear_reduce_scatter):
                got = op(x, w, bias, wire=wire, activation="relu")
                off = (got - torch.relu(plain[op])).abs().max() / plain[op].abs().max()
                assert 0 < off < tolerance, f"{op.__name__} over {wire}: off by {off}"
    leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
    behind = replicated(m * ranks, n, seed=5).requires_grad_()
    y = weft.linear_all_reduce(*leaves, activation="gelu", residual=behind, wire="bf16")
    y.backward(replicated(m * ranks, n, seed=7))
    assert torch.equal(behind.grad, replicated(m * ranks, n, seed=7)) and all(t.grad is not None for t in leaves)
    part = weft.linear_reduce_scatter(*leaves, activation="silu")
    leaves[0].grad = None
    part.sum().backward()
    sums = plain_reduce_scatter(x, w, bias).requires_grad_()
    F.silu(sums).sum().backward()
    near(leaves[0].grad, gathered(sums.grad) @ w, "linear_reduce_scatter with silu: gradient of x")
    refused(lambda: weft.linear_all_reduce(x, w, activation="tanh"), "tanh")
    refused(lambda: weft.linear_all_reduce(x, w, wire="f16"), "f16")
    refused(lambda: weft.linear_all_reduce(x, w, residual=torch.ones(1, 3)), "residual has 3", "shape of the result")
    finished = torch.ops.weft.linear_finished
    refused(lambda: finished("all_reduce", x, w, None, None, "none", "f32", ""), "takes no activation")
    refused(lambda: finished("all_gather_linear", x, w, None, None, "none", "bf16", ""), "no sums")


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


def plain_bags(tables, indices, offsets, mode, tables_of):
    """EmbeddingBag, gloo's exchange, and columns set side by side: what programs write without Weft."""
    ranks, dim = dist.get_world_size(), tables[0].shape[1]
    pooled = torch.cat([F.embedding_bag(i, t, o, mode=mode) for t, i, o in zip(tables, indices, offsets)], 1)
    samples = pooled.shape[0] // ranks
    send = [samples * len(tables)] * ranks
    receive = [samples * count for count in tables_of]
    rows = plain_exchange(pooled.reshape(-1, dim), send, receive)
    return torch.cat([part.reshape(samples, -1) for part in rows.split(receive)], 1)


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
    table = inputs(7, 8)
    square = torch.randint(0, 7, (2 * ranks, 3))
    near(
        weft.embedding_bag_all_to_all([table], [square]),
        plain_bags([table], [square.reshape(-1)], [torch.arange(0, 6 * ranks, 3)], "sum", [1] * ranks),
        "bags of one size",
    )


def own_plan():
    """A plan of the user's own runs where it can be proved, and is refused, with the reason, where not."""
    import pathlib
    import runpy

    weft.init()
    ranks, me = weft.size(), weft.rank()
    shift = runpy.run_path(str(pathlib.Path(__file__).parents[1] / "examples" / "08_own_collective.py"))["shift"]
    x, w = torch.full((6, 4), float(me)), torch.eye(4)[:3]
    for _ in range(3):
        y = weft.run_plan(shift(ranks, 6, 3, 4), x, w)
        assert torch.equal(y, torch.full((6, 3), float((me - 1) % ranks))), y
    silent = shift(ranks, 6, 3, 4)
    silent["rules"][1].pop("signals")
    refused(lambda: weft.run_plan(silent, x, w), "not runnable")
    early = shift(ranks, 6, 3, 4)
    early["rules"][1].pop("waits")
    refused(lambda: weft.run_plan(early, x, w), "not runnable")
    refused(lambda: weft.run_plan("{", x, w), "weft.run_plan")
    refused(lambda: weft.run_plan(shift(ranks + 1, 6, 3, 4), x, w), "ranks")
    refused(lambda: weft.run_plan(shift(ranks, 6, 3, 4), x), "reads w too")
    refused(lambda: weft.run_plan(shift(ranks, 6, 3, 4), x[:5], w), "x has 20 elements", "(6, 4)")
    for rows in range(1, 20):
        assert weft.run_plan(shift(ranks, rows, 3, 4), x[:1].expand(rows, 4), w).shape == (rows, 3)
    assert weft.run_plan(shift(ranks, 6, 3, 4), x, w).shape == (6, 3), "an old one comes again"


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

    def both(rows):
        moved = weft.linear_all_to_all(rows, w, [2] * ranks, [2] * ranks)
        return moved.sum() + weft.embedding_bag_all_to_all(tables, indices).square().sum()

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


def opcheck():
    weft.init()
    x, w, bias = torch.randn(4, 16), torch.randn(8, 16), torch.randn(8)
    rows = x.clone().requires_grad_()
    torch.library.opcheck(torch.ops.weft.linear_all_to_all.default, (rows, w, bias, [2, 2], [2, 2], ""))
    torch.library.opcheck(torch.ops.weft.all_to_all_counts.default, (rows, [2, 2], [2, 2], ""))
    tables, indices = [torch.randn(5, 4).requires_grad_()], [torch.tensor([1, 4, 2])]
    bags = tables, indices, [torch.tensor([0, 2, 3])], "sum", [1, 1], ""
    torch.library.opcheck(torch.ops.weft.embedding_bag_all_to_all.default, bags)
    for name in ("linear_all_reduce", "linear_reduce_scatter", "all_gather_linear"):
        op = getattr(torch.ops.weft, name).default
        torch.library.opcheck(op, (x, w, bias, ""))
        torch.library.opcheck(op, (x.clone().requires_grad_(), w.clone().requires_grad_(), None, ""))
    finished = torch.ops.weft.linear_finished.default
    torch.library.opcheck(finished, ("linear_all_reduce", rows, w, bias, None, "none", "bf16", ""))
    torch.library.opcheck(finished, ("linear_reduce_scatter", x, w, bias, torch.randn(2, 8), "gelu", "f32", ""))
    for name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all"):
        torch.library.opcheck(getattr(torch.ops.weft, name).default, (x, ""))


def fullgraph():
    """Fake kernels let torch.compile trace a layer in one piece; the values are those of eager."""
    weft.init()
    ranks = weft.size()
    x, up, down = torch.randn(2 * ranks, 16), torch.randn(32, 16), torch.randn(16, 32)

    def block(rows):
        return weft.linear_reduce_scatter(torch.relu(weft.all_gather_linear(rows, up)), down)

    traced = torch.compile(block, backend="aot_eager", fullgraph=True)
    near(traced(x), block(x), "compiled")


class Mlp(torch.nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.up, self.gate = (torch.nn.Linear(16, 24, bias=bias) for _ in range(2))
        self.down = torch.nn.Linear(24, 16, bias=bias)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)) * self.gate(x))


def compiled_block(bias, shape, shard):
    """An unmodified block of DTensors, compiled, against the whole block: outputs, gradients, what became of its
    collectives. `shard`: the dimension along which its input and output are cut, or None for copies."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch._dynamo.reset()
    torch.manual_seed(0)
    plain, model = Mlp(bias), Mlp(bias)
    model.load_state_dict(plain.state_dict())
    layout = Replicate() if shard is None else Shard(shard)
    column = ColwiseParallel(input_layouts=layout)
    plan = {"up": column, "gate": column, "down": RowwiseParallel(output_layouts=layout)}
    model = parallelize_module(model, dist.init_device_mesh("cpu", (weft.size(),)), plan)

    def mine(whole):
        return whole if shard is None else whole.chunk(weft.size(), shard)[weft.rank()]

    x = replicated(*shape, seed=1).requires_grad_()
    leaf = mine(x.detach()).clone().requires_grad_()
    met = len(weft.collectives())
    y, expected = torch.compile(model, backend="weft", fullgraph=True)(leaf), plain(x)
    y.square().sum().backward()
    expected.square().sum().backward()
    what = f"bias {bias}, {shape}, cut along {shard}"
    near(y, mine(expected), f"{what}: forward")
    near(leaf.grad, mine(x.grad), f"{what}: gradient of x")
    for (name, got), (_, whole) in zip(model.named_parameters(), plain.named_parameters()):
        if bias and shard is not None and name == "down.bias":
            continue  # every rank has added up the rows it holds: summing them is the caller's
        near(got.grad.full_tensor(), whole.grad, f"{what}: gradient of {name}")
    return weft.collectives()[met:]


def backend():
    """Blocks of DTensors: torch.compile finds their collectives, forward and backward, and fuses every one."""
    dist.init_process_group("gloo")
    weft.init()
    for bias in (False, True):
        for shape, shard in [((8, 16), None), ((2, 8, 16), None), ((8, 16), 0), ((4, 4, 16), 0), ((2, 8, 16), 1)]:
            lines = compiled_block(bias, shape, shard)
            assert len(lines) >= 3 and all(line.endswith(": fused") for line in lines), (bias, shape, shard, lines)


def styles():
    """weft.Colwise and weft.Rowwise, without torch.compile, against the whole block."""
    from torch.distributed.tensor.parallel import parallelize_module

    dist.init_process_group("gloo")
    weft.init()
    mesh = dist.init_device_mesh("cpu", (weft.size(),))
    for bias in (False, True):
        for shape, dim in [((8, 16), None), ((2, 8, 16), None), ((8, 16), 0), ((2, 8, 16), 1)]:
            torch.manual_seed(0)
            plain, model = Mlp(bias), Mlp(bias)
            model.load_state_dict(plain.state_dict())
            plan = {"up": weft.Colwise(dim), "gate": weft.Colwise(dim), "down": weft.Rowwise(dim)}
            model = parallelize_module(model, mesh, plan)
            x = replicated(*shape, seed=1).requires_grad_()
            part = x.detach() if dim is None else x.detach().chunk(weft.size(), dim)[weft.rank()]
            leaf = part.clone().requires_grad_()
            y, expected = model(leaf), plain(x)
            y.square().sum().backward()
            expected.square().sum().backward()
            for got, whole in ((y, expected), (leaf.grad, x.grad)):
                whole = whole if dim is None else whole.chunk(weft.size(), dim)[weft.rank()]
                near(got, whole, f"bias {bias}, {shape}, dim {dim}")
            for (name, got), (_, whole) in zip(model.named_parameters(), plain.named_parameters()):
                near(got.grad.full_tensor(), whole.grad, f"bias {bias}, {shape}, dim {dim}: gradient of {name}")
    refused(lambda: parallelize_module(torch.nn.ReLU(), mesh, weft.Rowwise()), "torch.nn.Linear, not ReLU")
    refused(lambda: parallelize_module(torch.nn.Linear(3, 5), mesh, weft.Colwise()), "cannot share 5")


def left_alone():
    """What cannot be fused runs as it is, and says why."""
    dist.init_process_group("gloo")
    weft.init()
    x, w, bias = replicated(8, 16, seed=1), replicated(16, 4), replicated(4)

    def all_reduce(y, op="sum"):
        return dist._functional_collectives.all_reduce(y, op, dist.group.WORLD)

    def gather(y):
        return dist._functional_collectives.all_gather_tensor(y, 0, dist.group.WORLD)

    def read_twice():
        made = x @ w
        return all_reduce(made) + made

    n = weft.size()
    cases = [
        (read_twice, (n + 1) * (x @ w), "the product has another reader"),
        (lambda: all_reduce(x @ w, "max"), x @ w, "no sum but max"),
        (lambda: all_reduce(torch.addmm(bias, x, w)), n * (x @ w + bias), "bias of its own"),
        (lambda: all_reduce(torch.relu(x @ w)), n * torch.relu(x @ w), "no product"),
        (lambda: all_reduce(x.double() @ w.double()).float(), n * (x @ w), "not float32"),
        (lambda: torch.relu(gather(x)), torch.relu(torch.cat([x] * n)), "no product has its rows"),
        (lambda: gather(x) @ gather(x).t(), torch.cat([x] * n) @ torch.cat([x] * n).t(), "no product has its rows"),
    ]
    for call, expected, why in cases:
        met = len(weft.collectives())
        near(torch.compile(call, backend="weft", fullgraph=True)(), expected, why)
        lines = weft.collectives()[met:]
        assert lines and any("left, " in line and why in line for line in lines), (why, lines)


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


def data_parallel():
    """DDP and FSDP over the backend "weft" train as one process does."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("cpu:weft")
    ranks, me = dist.get_world_size(), dist.get_rank()
    x, y = replicated(4 * ranks, 16, seed=1), replicated(4 * ranks, 16, seed=2)

    def trained(wrap, rows):
        torch.manual_seed(0)
        model = wrap(Mlp(True))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            (model(x[rows]) - y[rows]).square().mean().backward()
            optimiser.step()
        values = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
        return torch.cat([value.detach().reshape(-1) for value in values])

    alone, mine = trained(lambda model: model, slice(None)), slice(4 * me, 4 * me + 4)
    near(trained(DistributedDataParallel, mine), alone, "DDP")
    mesh = dist.init_device_mesh("cpu", (ranks,))
    near(trained(lambda model: fully_shard(model, mesh=mesh), mine), alone, "FSDP")


def bad_input():
    refused(lambda: weft.linear_all_reduce(torch.ones(1, 4), torch.ones(2, 4)), "has not joined Weft", "weft.init()")
    refused(weft.rank, "weft.init()")
    weft.init()
    x, w = torch.ones(4, 8), torch.ones(3, 8)
    refused(lambda: weft.linear_all_reduce(x.double(), w), "x", "not float32")
    refused(lambda: weft.linear_all_reduce(x, w.bfloat16()), "w", "not float32")
    refused(lambda: weft.linear_all_reduce(x, torch.ones(3, 7)), "x has 8 columns and w (3, 7)")
    refused(lambda: weft.linear_all_reduce(x, torch.ones(8)), "w has 1 dimensions")
    refused(lambda: weft.linear_all_reduce(torch.ones(8), w), "x has 1 dimensions")
    refused(lambda: weft.linear_all_reduce(x, w, torch.ones(4)), "bias has 4 elements and w 3 rows")
    refused(lambda: weft.linear_reduce_scatter(torch.ones(3, 8), w), "3 rows, which 2 ranks cannot share; pad to 4")
    refused(lambda: weft.all_reduce(torch.ones(0, 8)), "empty")
    refused(weft.init, "joined Weft already")
    refused(lambda: weft.explain(weft.rank, x, w), 'no op "rank"')
    refused(lambda: weft.all_reduce(torch.ones(2, 2 + weft.rank())), "compile different plans")
    child = os.fork()
    if child == 0:
        refused(lambda: weft.all_reduce(torch.ones(2, 2)), "forked from a rank")
        refused(weft.init, "forked from a rank")
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert torch.equal(weft.all_reduce(torch.ones(2, 2)), torch.full((2, 2), 2.0)), "all ranks are alive"


def aliases():
    weft.init()
    x, w = torch.ones(2, 8), torch.ones(4, 8)
    fresh = weft.linear_all_reduce(x, w)
    shown = weft.linear_all_reduce(x, w, alias=True)
    assert torch.equal(fresh, shown)
    again = weft.linear_all_reduce(2 * x, w, alias=True)
    assert again.data_ptr() == shown.data_ptr(), "an alias is the op's own memory"
    assert torch.equal(fresh, torch.full((2, 4), 16.0)), "a fresh tensor stays"
    weft.leave()
    assert torch.equal(again, torch.full((2, 4), 32.0)), "an alias keeps its memory"


def groups():
    """Two of three ranks: joining and compiling are theirs alone; the third does something else."""
    dist.init_process_group("gloo")
    weft.init()
    pair = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        refused(lambda: weft.all_reduce(torch.ones(1, 2), group=pair), "rank 0 is not in this group")
    else:
        assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=pair), torch.full((1, 2), 2.0))
        assert weft.size(pair) == 2 and weft.rank(pair) == dist.get_rank() - 1
    assert torch.equal(weft.all_reduce(torch.ones(1, 2)), torch.full((1, 2), 3.0))
    assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=dist.group.WORLD), torch.full((1, 2), 3.0))
    mesh = dist.init_device_mesh("cpu", (1, 3), mesh_dim_names=("dp", "tp"))
    assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=(mesh, "tp")), torch.full((1, 2), 3.0))
    assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=mesh["dp"]), torch.ones(1, 2))


def many_shapes():
    """New shapes all the time: the oldest are forgotten, alike on all ranks, and old ones may come again."""
    weft.init()
    w, shapes = torch.ones(8, 4), int(os.environ["SHAPES"])
    most, resident = 0, []
    for rows in list(range(1, shapes + 1)) + [1, 2, 3]:
        assert weft.linear_all_reduce(torch.ones(rows, 4), w)[0, 0] == 8
        most = max(most, torch.ops.weft.memory_bytes(""))
        resident.append(resident_bytes())
    assert len(weft.report()) == 64, "shapes that are kept"
    assert most < 16 << 20, most
    grown = resident[-1] - resident[shapes // 2]
    # Kept, plans and proofs of so many shapes would be ten times that.
    assert grown < 20_000 * shapes // 2, f"{grown} bytes more after the last {shapes // 2} shapes"


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def explain():
    weft.init()
    said = weft.explain(weft.linear_all_reduce, torch.ones(1, 256), torch.ones(1024, 256))
    assert said.startswith("fused: priced fused ") and "GF/s" in said, said
    said = weft.explain(weft.linear_reduce_scatter, torch.ones(2048, 512), torch.ones(2048, 512))
    assert "window" in said and "after" in said, said
    assert weft.report() == []
    weft.all_reduce(torch.ones(1, 2))
    assert weft.report()[0].startswith("all_reduce m 1 n 2"), weft.report()


def killed():
    """Rank 1 is killed by the test in the middle of endless runs; rank 0 names it."""
    weft.init()
    x, w = torch.ones(4, 8), torch.ones(4, 8)
    weft.linear_all_reduce(x, w)
    print("running", flush=True)
    try:
        while True:
            weft.linear_all_reduce(x, w)
    except RuntimeError as error:
        print(f"{time.time()} {str(error).splitlines()[0]}", flush=True)


def threads():
    torch.set_num_threads(2)
    weft.init()
    near(weft.linear_all_reduce(torch.ones(40, 64), torch.ones(64, 64)), torch.full((40, 64), 128.0), "two threads")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
