"""What torch.compile sees: fake kernels, gradients, and the pass behind backend="weft"."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives

import weft

from bodies.plain import Mlp, near, replicated


def opcheck():
    weft.init()
    x, w, bias = torch.randn(4, 16), torch.randn(8, 16), torch.randn(8)
    rows = x.clone().requires_grad_()
    torch.library.opcheck(torch.ops.weft.linear_all_to_all.default, (rows, w, bias, [2, 2], [2, 2], ""))
    torch.library.opcheck(torch.ops.weft.all_to_all_counts.default, (rows, [2, 2], [2, 2], ""))
    torch.library.opcheck(torch.ops.weft.linear_all_to_all.default, (rows, w, bias, [2, 2], [2, 2], "", 3))
    torch.library.opcheck(torch.ops.weft.all_to_all_counts.default, (rows, [2, 2], [2, 2], "", 3))
    tables, indices = [torch.randn(5, 4).requires_grad_()], [torch.tensor([1, 4, 2])]
    bags = tables, indices, [torch.tensor([0, 2, 3])], "sum", [1, 1], "", False
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
