"""Linear ops and collectives of equal parts, values and gradients, against plain torch and gloo."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft

from bodies.plain import gathered, inputs, near, plain_all_reduce, plain_reduce_scatter, refused, replicated

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


def threads():
    torch.set_num_threads(2)
    weft.init()
    near(weft.linear_all_reduce(torch.ones(40, 64), torch.ones(64, 64)), torch.full((40, 64), 128.0), "two threads")
