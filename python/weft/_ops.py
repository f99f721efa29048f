"""The ops as functions, their fake kernels and their gradients.

Gradients are by duality. A sum that every rank gets is taken to be used alike by all of them, as tensor-parallel layers
use it: the gradient of all_reduce is the gradient itself. reduce_scatter and all_gather are each other's.
"""

import torch

from weft._join import name_of, place_in

_ops = torch.ops.weft


def _call(op, *arguments):
    """An op without its gradient where nobody asks for one: torch's Python autograd costs more than a small op."""
    if torch.compiler.is_compiling():
        return op(*arguments)
    tensors = (a for a in arguments if isinstance(a, torch.Tensor))
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return op(*arguments)
    with torch._C._AutoDispatchBelowAutograd():
        return op(*arguments)


def linear_all_reduce(x, w, bias=None, group=None, alias=False):
    """F.linear(x, w) summed over the ranks, plus bias: x (..., k), w (n, k). Every rank gets all of it."""
    return _call(_ops.linear_all_reduce.default, x, w, bias, name_of(group), alias)


def linear_reduce_scatter(x, w, bias=None, group=None, alias=False):
    """F.linear(x, w) summed over the ranks, plus bias; rank r gets part r of the rows (dimension 0)."""
    return _call(_ops.linear_reduce_scatter.default, x, w, bias, name_of(group), alias)


def all_gather_linear(x, w, bias=None, group=None, alias=False):
    """F.linear of all ranks' rows, stacked along dimension 0, with this rank's w and bias."""
    return _call(_ops.all_gather_linear.default, x, w, bias, name_of(group), alias)


def all_reduce(x, group=None, alias=False):
    """The sum over the ranks, on every rank."""
    return _call(_ops.all_reduce.default, x, name_of(group), alias)


def reduce_scatter(x, group=None, alias=False):
    """The sum over the ranks; rank r gets part r of the rows (dimension 0)."""
    return _call(_ops.reduce_scatter.default, x, name_of(group), alias)


def all_gather(x, group=None, alias=False):
    """All ranks' rows, stacked along dimension 0 in rank order."""
    return _call(_ops.all_gather.default, x, name_of(group), alias)


def all_to_all(x, group=None, alias=False):
    """Part d of the rows (dimension 0) goes to rank d, which stacks what it gets in rank order."""
    return _call(_ops.all_to_all.default, x, name_of(group), alias)


def rank(group=None):
    return place_in(name_of(group))[0]


def size(group=None):
    return place_in(name_of(group))[1]


def explain(op, x, w=None, bias=None, group=None):
    """Which way `op` takes for these tensors, and what each way would cost, in one sentence. Runs nothing."""
    columns = x.shape[-1]
    n, k = (columns, 0) if w is None else (w.shape[0], columns)
    return _ops.explain(op.__name__, x.numel() // columns, n, k, bias is not None, name_of(group))


def report(group=None):
    """What is compiled, one line per op and shape, the latest first, with the way it takes and why."""
    return _ops.report(name_of(group)).splitlines()


def _fake_linear(rows):
    def fake(x, w, bias, group, alias=False):
        return x.new_empty([rows(x.shape[0], place_in(group)[1]), *x.shape[1:-1], w.shape[0]])

    return fake


def _fake_all_gather_linear_rows(x, w, bias, group):
    rows = x.shape[0] * place_in(group)[1]
    return x.new_empty([rows, *x.shape[1:-1], w.shape[0]]), x.new_empty([rows, *x.shape[1:]])


def _fake_alone(rows):
    def fake(x, group, alias=False):
        return x.new_empty([rows(x.shape[0], place_in(group)[1]), *x.shape[1:]])

    return fake


def _flat(tensor):
    return tensor.reshape(-1, tensor.shape[-1])


def _keep_linear(ctx, inputs, output):
    x, w, bias, ctx.group, _ = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, w)


def _gradients(ctx, grad, rows, grad_x, grad_rows):
    """Of x, w and bias: `rows` and `grad_rows` are those of the whole product."""
    need_x, need_w, need_bias = ctx.needs_input_grad[:3]
    return (
        grad_x() if need_x else None,
        _flat(grad_rows()).t() @ _flat(rows()) if need_w else None,
        _flat(grad).sum(0) if need_bias and ctx.has_bias else None,
        None,
        None,
    )


def _linear_all_reduce_backward(ctx, grad):
    x, w = ctx.saved_tensors
    return _gradients(ctx, grad, lambda: x, lambda: grad @ w, lambda: grad)


def _linear_reduce_scatter_backward(ctx, grad):
    x, w = ctx.saved_tensors
    whole = _ops.all_gather(grad.contiguous(), ctx.group)
    return _gradients(ctx, grad, lambda: x, lambda: whole @ w, lambda: whole)


def _all_gather_linear_backward(ctx, grad):
    x, w = ctx.saved_tensors
    return _gradients(
        ctx,
        grad,
        lambda: _ops.all_gather(x, ctx.group),  # gathered again: kept, they would be as much memory as all ranks' x
        lambda: _ops.linear_reduce_scatter(grad.contiguous(), w.t(), None, ctx.group),
        lambda: grad,
    )


def _keep_group(ctx, inputs, output):
    _, ctx.group, _ = inputs


def _all(rows, ranks):
    return rows * ranks


def _part(rows, ranks):
    return rows // ranks


def _same(rows, ranks):
    return rows


# How many rows a rank gets of so many, and the gradient.
_LINEAR = {
    "linear_all_reduce": (_same, _linear_all_reduce_backward),
    "linear_reduce_scatter": (_part, _linear_reduce_scatter_backward),
    "all_gather_linear": (_all, _all_gather_linear_backward),
}
_ALONE = {
    "all_reduce": (_same, lambda ctx, grad: (grad, None, None)),
    "reduce_scatter": (_part, lambda ctx, grad: (_ops.all_gather(grad.contiguous(), ctx.group), None, None)),
    "all_gather": (_all, lambda ctx, grad: (_ops.reduce_scatter(grad.contiguous(), ctx.group), None, None)),
    "all_to_all": (_same, lambda ctx, grad: (_ops.all_to_all(grad.contiguous(), ctx.group), None, None)),
}
for _name, (_rows, _backward) in _LINEAR.items():
    torch.library.register_fake(f"weft::{_name}", _fake_linear(_rows))
    torch.library.register_autograd(f"weft::{_name}", _backward, setup_context=_keep_linear)
# torch.compile alone calls it, behind autograd.
torch.library.register_fake("weft::all_gather_linear_rows", _fake_all_gather_linear_rows)
for _name, (_rows, _backward) in _ALONE.items():
    torch.library.register_fake(f"weft::{_name}", _fake_alone(_rows))
    torch.library.register_autograd(f"weft::{_name}", _backward, setup_context=_keep_group)
