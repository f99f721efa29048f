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


def opcheck():
    weft.init()
    x, w, bias = torch.randn(4, 16), torch.randn(8, 16), torch.randn(8)
    for name in ("linear_all_reduce", "linear_reduce_scatter", "all_gather_linear"):
        op = getattr(torch.ops.weft, name).default
        torch.library.opcheck(op, (x, w, bias, ""))
        torch.library.opcheck(op, (x.clone().requires_grad_(), w.clone().requires_grad_(), None, ""))
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
    both(summed(dist.ReduceOp.MAX), 6)
    both(summed(dist.ReduceOp.SUM), 6, dtype=torch.int64)
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
    w = torch.ones(8, 4)
    most = 0
    for rows in list(range(1, int(os.environ["SHAPES"]) + 1)) + [1, 2, 3]:
        assert weft.linear_all_reduce(torch.ones(rows, 4), w)[0, 0] == 8
        most = max(most, torch.ops.weft.memory_bytes(""))
    assert len(weft.report()) == 64, "shapes that are kept"
    assert most < 16 << 20, most


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
