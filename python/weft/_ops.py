"""The ops as functions, their fake kernels and their gradients.

Gradients are by duality. A sum that every rank gets is taken to be used alike by all of them, as tensor-parallel layers
use it: the gradient of all_reduce is the gradient itself. reduce_scatter and all_gather are each other's.
"""

import json

import torch

from weft._join import name_of, place_in

_ops = torch.ops.weft


def _call(op, *arguments, differentiable=None):
    """An op without its gradient where nobody asks for one: torch's Python autograd costs more than a small op.

    `differentiable`: those that may ask for one; all that are tensors unless given.
    """
    if torch.compiler.is_compiling():
        return op(*arguments)
    if torch.is_grad_enabled() and any(map(_wants_gradient, arguments if differentiable is None else differentiable)):
        return op(*arguments)
    with torch._C._AutoDispatchBelowAutograd():
        return op(*arguments)


def _wants_gradient(argument):
    return isinstance(argument, torch.Tensor) and argument.requires_grad


_ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": lambda y: torch.nn.functional.gelu(y, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def _linear(op, x, w, bias, group, alias, activation=None, residual=None, wire=None):
    """activation(F.linear, summed or gathered, + bias) + residual, in one op where nobody asks for a gradient."""
    world = name_of(group)
    if activation is None and residual is None and wire is None:
        return _call(getattr(_ops, op).default, x, w, bias, world, alias)
    wire = "f32" if wire is None else wire
    finished = _ops.linear_finished.default
    wanted = torch.is_grad_enabled() and any(_wants_gradient(t) for t in (x, w, bias, residual))
    if not wanted and not torch.compiler.is_compiling():
        return _call(finished, op, x, w, bias, residual, activation or "none", wire, world, alias)
    if activation is not None and activation not in _ACTIVATIONS:
        raise RuntimeError(f"weft.{op}: no activation {activation}; use {', '.join(_ACTIVATIONS)}")
    y = _call(finished, op, x, w, bias, None, "none", wire, world, alias)
    y = y if activation is None else _ACTIVATIONS[activation](y)
    return y if residual is None else y + residual


def linear_all_reduce(x, w, bias=None, group=None, alias=False, activation=None, residual=None, wire=None):
    """F.linear(x, w) summed over the ranks, plus bias: x (..., k), w (n, k). Every rank gets all of it.

    `activation` ("relu", "gelu" in its tanh form, "silu") is applied to the sum, and `residual`, the same on every rank,
    added behind it. Sums travel between ranks in the format `wire`: "f32", "bf16" or "int8".
    """
    return _linear("linear_all_reduce", x, w, bias, group, alias, activation, residual, wire)


def linear_reduce_scatter(x, w, bias=None, group=None, alias=False, activation=None, residual=None, wire=None):
    """F.linear(x, w) summed over the ranks, plus bias; rank r gets part r of the rows (dimension 0).

    The rest as of linear_all_reduce; `residual` has this rank's rows.
    """
    return _linear("linear_reduce_scatter", x, w, bias, group, alias, activation, residual, wire)


def all_gather_linear(x, w, bias=None, group=None, alias=False, activation=None, residual=None):
    """F.linear of all ranks' rows, stacked along dimension 0, with this rank's w and bias.

    `activation` and `residual`, which has all ranks' rows, as of linear_all_reduce.
    """
    return _linear("all_gather_linear", x, w, bias, group, alias, activation, residual)


def all_reduce(x, group=None, alias=False):
    """The sum over the ranks, on every rank."""
    return _call(_ops.all_reduce.default, x, name_of(group), alias)


def reduce_scatter(x, group=None, alias=False):
    """The sum over the ranks; rank r gets part r of the rows (dimension 0)."""
    return _call(_ops.reduce_scatter.default, x, name_of(group), alias)


def all_gather(x, group=None, alias=False):
    """All ranks' rows, stacked along dimension 0 in rank order."""
    return _call(_ops.all_gather.default, x, name_of(group), alias)


def all_to_all(x, group=None, alias=False, send=None, receive=None, capacity=None):
    """Part d of the rows (dimension 0) goes to rank d, which stacks what it gets in rank order.

    Parts are equal, or as counts say: `send` has the rows for each rank, `receive` those from each; one is enough.
    `capacity` as of linear_all_to_all.
    """
    if send is None and receive is None:
        return _call(_ops.all_to_all.default, x, name_of(group), alias)
    rows = x.flatten(1) if x.dim() > 2 else x
    made = _call(_ops.all_to_all_counts.default, rows, _counts(send), _counts(receive), name_of(group), capacity or 0)
    return made.unflatten(1, x.shape[1:]) if x.dim() > 2 else made


def linear_all_to_all(x, w, send, receive=None, bias=None, group=None, capacity=None):
    """Rows of F.linear(x, w, bias) go to their ranks: x (m, k) has send[d] rows for rank d, those for rank 0 first.

    A rank stacks what it gets in rank order; `receive`, the rows from each rank, may be left out. w and bias are this
    rank's own, as an expert's. `capacity`, the same on all ranks, is the most rows of a rank for another: where every
    rank gives it, `send` and `receive`, none asks another before the call, and counts that do not agree are not seen.
    """
    counts = _counts(send), _counts(receive)
    return _call(_ops.linear_all_to_all.default, x, w, bias, *counts, name_of(group), capacity or 0)


def embedding_bag_all_to_all(
    tables, indices, offsets=None, mode="sum", include_last_offset=False, tables_of=None, group=None, sparse=False
):
    """Every rank pools its tables (rows, dim) for the whole batch and gets all ranks' tables for its part of it.

    `indices` and `offsets` are lists, one of each per table, as F.embedding_bag takes them: a row and where its bags
    begin, or (batch, size of a bag) and no offsets. Or one tensor of each has all tables' bags, one table's behind
    another's, as TorchRec's KeyedJaggedTensor has them: values() and offsets(), which are tables * batch + 1, from 0 to
    the number of values; or (tables, batch, size of a bag) and no offsets. The result is (batch / ranks, all ranks' tables * dim), in rank order.
    `tables_of` says how many tables each rank has where they differ. With `sparse` gradients of tables are sparse
    tensors, not coalesced, of the rows that the batch has looked up.
    """
    world = name_of(group)
    tables = list(tables)
    tables_of = [len(tables)] * place_in(world)[1] if tables_of is None else list(tables_of)
    if isinstance(indices, torch.Tensor):
        indices, offsets = _of_all_tables(indices, offsets)
    elif offsets is None:
        offsets = _even_offsets(indices)
        indices = [_long(each.reshape(-1)) for each in indices]
    else:
        offsets = [_offsets(begins, each, include_last_offset) for begins, each in zip(offsets, indices)]
        indices = [_long(each) for each in indices]
    op = _ops.embedding_bag_all_to_all.default
    return _call(op, tables, indices, offsets, mode, tables_of, world, sparse, differentiable=tables)


def _counts(given):
    return [] if given is None else given.tolist() if isinstance(given, torch.Tensor) else list(given)


def _of_all_tables(indices, offsets):
    """One tensor of each, in lists."""
    if offsets is not None:
        return [_long(indices)], [_long(offsets)]
    if indices.dim() != 3:
        raise RuntimeError(f"weft: indices have {indices.dim()} dimensions; without offsets give (tables, batch, bag)")
    tables, batch, size = indices.shape
    return [_long(indices.reshape(-1))], [_offsets_of(tables * batch, size, indices)]


def _long(tensor):
    return tensor if tensor.dtype is torch.int64 else tensor.long()


def _offsets(begins, indices, has_last):
    """Where bags begin, and where the last one ends."""
    if not has_last:
        begins = torch.cat([begins, begins.new_full((1,), indices.numel())])
    return _long(begins)


_MOST_KEPT = 64
_kept_offsets = {}  # (batch, size, device) -> offsets, the latest last


def _even_offsets(indices):
    """Of bags of one size, for every table. Tables alike share theirs."""
    offsets, shape = [], None
    for each in indices:
        if each.shape != shape:
            shape = each.shape
            if len(shape) != 2:
                raise RuntimeError(f"weft: indices have {len(shape)} dimensions; without offsets give (batch, bag)")
            made = _offsets_of(*shape, each)
        offsets.append(made)
    return offsets


def _offsets_of(batch, size, indices):
    """Those of (batch, size) bags, on the device of the indices; made once where they can be kept.

    What a CUDA graph reads must live as long as the graph, and what is traced is no tensor of numbers: then they are
    made by the call. Those that are kept are there before anybody sees them, for every stream.
    """
    device = indices.device
    on_gpu = device.type == "cuda"
    traced = torch.compiler.is_compiling() or type(indices) is not torch.Tensor
    if traced or (on_gpu and torch.cuda.is_current_stream_capturing()):
        return torch.arange(batch + 1, device=device) * size
    key = batch, size, device
    made = _kept_offsets.pop(key, None)
    if made is None:
        with torch.inference_mode(False):
            made = (torch.arange(batch + 1, device="cpu") * size).to(device)
        if type(made) is not torch.Tensor:
            return made  # a mode of the caller's made something else of it
        if len(_kept_offsets) >= _MOST_KEPT:
            if on_gpu:
                torch.cuda.synchronize(device)  # whatever stream still reads the one that goes
            _kept_offsets.pop(next(iter(_kept_offsets)))
    _kept_offsets[key] = made
    return made


def run_plan(plan, x, w=None, group=None):
    """A collective of your own: a plan as a dict or as JSON text (docs/plan.md), proved before it first runs.

    It has one producer, a gemm or gemv of x and w or a copy of x, and one output, which is returned. Every rank gives
    the same plan. It has no gradient, and torch.compile does not trace it.
    """
    text = plan if isinstance(plan, str) else json.dumps(plan)
    with torch._C._AutoDispatchBelowAutograd():
        return _ops.run_plan(text, x, w, name_of(group))


def rank(group=None):
    return place_in(name_of(group))[0]


def size(group=None):
    return place_in(name_of(group))[1]


def explain(op, x, w=None, bias=None, group=None):
    """Which way `op` takes for these tensors, and what each way would cost, in one sentence. Runs nothing."""
    columns = x.shape[-1]
    n, k = (columns, 0) if w is None else (w.shape[0], columns)
    dtype = "bf16" if x.dtype == torch.bfloat16 else "f32"
    return _ops.explain(op.__name__, x.numel() // columns, n, k, bias is not None, dtype, name_of(group))


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


def _fake_received(receive):
    """How many rows: said, or known when they are there."""
    return sum(receive) if receive else torch.library.get_ctx().new_dynamic_size()


def _fake_linear_all_to_all(x, w, bias, send, receive, group, capacity=0):
    return x.new_empty([_fake_received(receive), w.shape[0]])


def _fake_all_to_all_counts(x, send, receive, group, capacity=0):
    return x.new_empty([_fake_received(receive), x.shape[1]])


def _fake_bags(tables, indices, offsets, mode, tables_of, group, sparse):
    ranks = place_in(group)[1]
    batch = (offsets[0].shape[0] - 1) // (len(tables) // len(offsets))
    return tables[0].new_empty([batch // ranks, sum(tables_of) * tables[0].shape[1]])


def _fake_bags_backward(grad, indices, offsets, rows, mode, tables_of, group, sparse):
    counts = [of.shape[0] for of in indices] if sparse else rows
    if sparse and len(indices) < len(rows):  # nobody knows how many are of which table
        counts = [torch.library.get_ctx().new_dynamic_size() for _ in rows]
    return [grad.new_empty([count, grad.shape[1] // sum(tables_of)]) for count in counts]


def _keep_linear_counts(ctx, inputs, output):
    x, w, bias, ctx.send, ctx.receive, ctx.group, ctx.capacity = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, w)


def _returned(ctx, grad):
    """To whom the rows came from, as many as they sent; they know how many where this rank was not told."""
    return _ops.all_to_all_counts(grad.contiguous(), ctx.receive, ctx.send, ctx.group, ctx.capacity)


def _linear_all_to_all_backward(ctx, grad):
    x, w = ctx.saved_tensors
    rows = _returned(ctx, grad)
    need_x, need_w, need_bias = ctx.needs_input_grad[:3]
    return (
        rows @ w if need_x else None,
        rows.t() @ x if need_w else None,
        rows.sum(0) if need_bias and ctx.has_bias else None,
        None,
        None,
        None,
        None,
    )


def _keep_counts(ctx, inputs, output):
    _, ctx.send, ctx.receive, ctx.group, ctx.capacity = inputs


def _keep_bags(ctx, inputs, output):
    tables, indices, offsets, ctx.mode, ctx.tables_of, ctx.group, ctx.sparse = inputs
    ctx.rows = [table.shape[0] for table in tables]
    ctx.save_for_backward(*indices, *offsets)


def _bags_backward(ctx, grad):
    saved = list(ctx.saved_tensors)
    indices, offsets = saved[: len(saved) // 2], saved[len(saved) // 2 :]
    grads = _ops.embedding_bag_all_to_all_backward(
        grad.contiguous(), indices, offsets, ctx.rows, ctx.mode, ctx.tables_of, ctx.group, ctx.sparse
    )
    if ctx.sparse:
        found = zip(_looked_up(indices, offsets, len(ctx.rows)), grads, ctx.rows)
        grads = [torch.sparse_coo_tensor(i.unsqueeze(0), values, (n, values.shape[1])) for i, values, n in found]
    nothing = [None] * len(indices)
    return grads, nothing, nothing, None, None, None, None


def _looked_up(indices, offsets, tables):
    """The indices of every table's bags."""
    if len(indices) == tables:
        return indices
    return indices[0].split(offsets[0][:: (offsets[0].shape[0] - 1) // tables].diff().tolist())


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


def _fake_linear_finished(op, x, w, bias, residual, activation, wire, group, alias=False):
    rows = _LINEAR[op][0](x.shape[0], place_in(group)[1])
    return x.new_empty([rows, *x.shape[1:-1], w.shape[0]])


def _keep_linear_finished(ctx, inputs, output):
    ctx.op, x, w, bias, residual, activation, _, group, alias = inputs
    ctx.whole = residual is None and activation == "none"
    _keep_linear(ctx, (x, w, bias, group, alias), output)


def _linear_finished_backward(ctx, grad):
    """Sums of gradients travel in f32, whatever the wire was."""
    if not ctx.whole:
        raise RuntimeError("weft: an activation or residual within the op has no gradient; call weft." + ctx.op)
    need = ctx.needs_input_grad
    ctx.needs_input_grad = need[1:4]
    grads = _LINEAR[ctx.op][1](ctx, grad)
    ctx.needs_input_grad = need
    return None, *grads[:3], None, None, None, None, None


_ALONE = {
    "all_reduce": (_same, lambda ctx, grad: (grad, None, None)),
    "reduce_scatter": (_part, lambda ctx, grad: (_ops.all_gather(grad.contiguous(), ctx.group), None, None)),
    "all_gather": (_all, lambda ctx, grad: (_ops.reduce_scatter(grad.contiguous(), ctx.group), None, None)),
    "all_to_all": (_same, lambda ctx, grad: (_ops.all_to_all(grad.contiguous(), ctx.group), None, None)),
}
for _name, (_rows, _backward) in _LINEAR.items():
    torch.library.register_fake(f"weft::{_name}", _fake_linear(_rows))
    torch.library.register_autograd(f"weft::{_name}", _backward, setup_context=_keep_linear)
torch.library.register_fake("weft::linear_finished", _fake_linear_finished)
torch.library.register_autograd(
    "weft::linear_finished", _linear_finished_backward, setup_context=_keep_linear_finished
)
# torch.compile alone calls it, behind autograd.
torch.library.register_fake("weft::all_gather_linear_rows", _fake_all_gather_linear_rows)
for _name, (_rows, _backward) in _ALONE.items():
    torch.library.register_fake(f"weft::{_name}", _fake_alone(_rows))
    torch.library.register_autograd(f"weft::{_name}", _backward, setup_context=_keep_group)
_COUNTED = {
    "linear_all_to_all": (_fake_linear_all_to_all, _linear_all_to_all_backward, _keep_linear_counts),
    "all_to_all_counts": (
        _fake_all_to_all_counts,
        lambda ctx, grad: (_returned(ctx, grad), None, None, None, None),
        _keep_counts,
    ),
    "embedding_bag_all_to_all": (_fake_bags, _bags_backward, _keep_bags),
}
for _name, (_fake, _backward, _keep) in _COUNTED.items():
    torch.library.register_fake(f"weft::{_name}", _fake)
    torch.library.register_autograd(f"weft::{_name}", _backward, setup_context=_keep)
torch.library.register_fake("weft::embedding_bag_all_to_all_backward", _fake_bags_backward)
