"""The ops in bfloat16, against plain torch in float32 of the same rounded values: sums are kept in float32."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft

from bodies.plain import counts_of, gathered, inputs, plain_all_reduce, plain_exchange, plain_reduce_scatter, refused
from bodies.plain import replicated

# Of the largest element: one rounding to 8 bits of what was summed in float32, where torch multiplies two of them.
TOLERANCE = 0.01


def rounded(*sizes, seed=0, make=inputs):
    return make(*sizes, seed=seed).bfloat16()


def near(got, expected, what):
    assert got.dtype == torch.bfloat16 and got.shape == expected.shape, (what, got.dtype, got.shape, expected.shape)
    worst = (got.float() - expected).abs().max() / expected.abs().max()
    assert worst < TOLERANCE, f"{what}: off by {worst:.1e} of the largest element"


def narrow():
    """Few rows, which are widened for the plan, and many, which are not."""
    dist.init_process_group("gloo")
    weft.init()
    ranks = weft.size()
    for m, n, k in [(1, 96, 40), (4, 64, 32), (40, 50, 33), (128, 256, 64)]:
        x, w, bias = rounded(m * ranks, k), rounded(n, k, seed=1), rounded(n, make=replicated)
        wide = x.float(), w.float(), bias.float()
        plain = {
            weft.linear_all_reduce: plain_all_reduce(*wide),
            weft.linear_reduce_scatter: plain_reduce_scatter(*wide),
            weft.all_gather_linear: F.linear(gathered(x.float()), *wide[1:]),
        }
        for op, whole in plain.items():
            make = replicated if op is weft.linear_all_reduce else inputs
            residual = rounded(*whole.shape, seed=5, make=make)
            for _ in range(2):
                near(op(x, w, bias), whole, f"{op.__name__} {m} {n} {k}")
            near(op(x, w, bias, alias=True), whole, f"{op.__name__} {m} {n} {k}, alias")
            finished = op(x, w, bias, activation="relu", residual=residual)
            near(finished, torch.relu(whole) + residual.float(), f"{op.__name__} {m} {n} {k}, finished")
        near(weft.linear_all_reduce(x, w, wire="bf16"), plain_all_reduce(wide[0], wide[1], None), "wire")
    refused(lambda: weft.linear_all_reduce(x, w.float()), "w", "not bfloat16")
    refused(lambda: weft.linear_all_reduce(x, w, bias.float()), "bias", "not bfloat16")
    assert "bf16" in weft.report()[0], weft.report()[0]
    assert "GF/s" in weft.explain(weft.linear_all_reduce, x, w)


def narrow_windows():
    """With WEFT_WAY=window: torch's product lies in its owners' memory, and is summed as the collective alone would."""
    dist.init_process_group("gloo")
    weft.init()
    ranks = weft.size()
    pairs = [(weft.linear_all_reduce, weft.all_reduce), (weft.linear_reduce_scatter, weft.reduce_scatter)]
    for m, n, k in [(16, 256, 64), (128, 512, 96), (100, 1000, 32)]:  # the last in rows that lie 1024 apart
        x, w = rounded(m * ranks, k), rounded(n, k, seed=1)
        for op, alone in pairs:
            assert weft.explain(op, x, w).startswith("window: "), weft.explain(op, x, w)
            for _ in range(3):
                assert torch.equal(op(x, w), alone(F.linear(x, w))), f"{op.__name__} {m} {n} {k}"
            whole = alone(F.linear(x, w)).float()
            near(op(x, w, wire="bf16"), whole, f"{op.__name__} {m} {n} {k}, wire")
            assert "window: " in weft.report()[0], weft.report()[0]
            near(op(x, w, wire="int8"), whole, f"{op.__name__} {m} {n} {k}, wire int8")
            assert "window: " not in weft.report()[0], weft.report()[0]
            residual = rounded(*whole.shape, make=replicated)
            near(op(x, w, activation="relu", residual=residual), torch.relu(whole) + residual.float(), "finished")
    rows, w = rounded(64 * ranks, 24), rounded(64, 24, seed=1)
    exchanged = weft.linear_all_to_all(rows, w, [64] * ranks)
    assert torch.equal(exchanged, weft.all_to_all(F.linear(rows, w))), "linear_all_to_all"
    assert any(line.startswith("linear_all_to_all") and "window" in line for line in weft.report()), weft.report()


def narrow_collectives():
    """Rows alone: moved as they are, summed in float32; and counted exchanges."""
    dist.init_process_group("gloo")
    weft.init()
    ranks, me = weft.size(), weft.rank()
    x = rounded(6 * ranks, 10)
    whole = x.float()
    dist.all_reduce(whole)
    near(weft.all_reduce(x), whole, "all_reduce")
    near(weft.reduce_scatter(x), whole.chunk(ranks)[me], "reduce_scatter")
    assert torch.equal(weft.all_gather(x), gathered(x))
    assert torch.equal(weft.all_to_all(weft.all_to_all(x)), x)
    counts = counts_of(ranks, "some")
    send, receive = counts[me], [row[me] for row in counts]
    rows, w, bias = rounded(sum(send), 24), rounded(16, 24, seed=1), rounded(16, seed=2)
    assert torch.equal(weft.all_to_all(rows, send=send).float(), plain_exchange(rows.float(), send, receive))
    made = F.linear(rows.float(), w.float(), bias.float())
    near(weft.linear_all_to_all(rows, w, send, bias=bias), plain_exchange(made, send, receive), "linear_all_to_all")


def narrow_gradients():
    dist.init_process_group("gloo")
    weft.init()
    ranks, me = weft.size(), weft.rank()
    x, w, bias = rounded(40 * ranks, 32), rounded(24, 32, seed=1), rounded(24, make=replicated)
    leaves = [t.clone().requires_grad_() for t in (x, w, bias)]
    same = rounded(40 * ranks, 24, seed=7, make=replicated)
    wide = same.float()
    weft.linear_all_reduce(*leaves).backward(same)
    for leaf, expected in zip(leaves, (wide @ w.float(), wide.t() @ x.float(), wide.sum(0))):
        near(leaf.grad, expected, "linear_all_reduce backward")
        leaf.grad = None
    weft.linear_reduce_scatter(*leaves).backward(same.chunk(ranks)[me].contiguous())
    near(leaves[0].grad, wide @ w.float(), "linear_reduce_scatter backward")


def narrow_c10d():
    dist.init_process_group("cpu:weft")
    x = rounded(7, 64)
    y = x.clone()
    dist.all_reduce(y)
    wide = x.float()
    dist.all_reduce(wide, group=dist.new_group(backend="gloo"))
    near(y, wide, "dist.all_reduce")
    assert any(line.startswith("all_reduce m") and "bf16" in line for line in weft.report()), weft.report()
