"""weft.fuse(model): a model that transformers has split over ranks (tp_plan="auto"), each of its linear layers one op.

transformers wraps every split layer: it swaps parameters for their local parts, multiplies, calls torch.distributed,
and swaps them back, in Python and for every token. What is left of that here is the product and its collective:

    colwise                 F.linear with this rank's rows of the weight
    colwise_gather_output   the same, and all ranks' columns side by side
    rowwise                 linear_all_reduce; rowwise_split_input, of this rank's columns of the input
    embedding_rowwise       this rank's rows of the table, and all_reduce: the other ranks have zeros

Where a gradient is asked for, or a DTensor comes in, a layer does as before.
"""

import re

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, Shard

from weft._join import name_of, place_in


def _local(parameter):
    """This rank's part, as plain memory of the parameter's own."""
    if parameter is None:
        return None
    return (parameter.to_local() if isinstance(parameter, DTensor) else parameter).detach()


def _columns(w, bias, world):
    return lambda x: F.linear(x, w, bias)


def _gathered_columns(w, bias, world):
    ranks, columns = place_in(world)[1], w.shape[0]

    def run(x):
        part = F.linear(x, w, bias).reshape(-1, columns)
        with torch._C._AutoDispatchBelowAutograd():
            every = torch.ops.weft.all_gather.default(part, world, part.shape[0] > 1).view(ranks, -1, columns)
        return every.transpose(0, 1).reshape(*x.shape[:-1], ranks * columns)

    return run


def _rows(w, bias, world):
    op = torch.ops.weft.linear_all_reduce.default

    def run(x):
        with torch._C._AutoDispatchBelowAutograd():
            return op(x, w, bias, world)

    return run


def _split_rows(w, bias, world):
    rank, columns = place_in(world)[0], w.shape[1]
    run = _rows(w, bias, world)
    return lambda x: run(x[..., rank * columns : (rank + 1) * columns])


def _table_rows(w, bias, world):
    rank, rows = place_in(world)[0], w.shape[0]

    def run(tokens):
        at = tokens - rank * rows
        elsewhere = (at < 0) | (at >= rows)
        part = F.embedding(at.masked_fill_(elsewhere, 0), w).masked_fill_(elsewhere.unsqueeze(-1), 0)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.weft.all_reduce.default(part, world)

    return run


# How each style's layer runs, along which dimension its weight is cut, and whether its parts must be equal.
_STYLES = {
    "colwise": (_columns, 0, False),
    "colwise_gather_output": (_gathered_columns, 0, True),
    "colwise_rep": (_gathered_columns, 0, True),
    "rowwise": (_rows, 1, True),
    "rowwise_split_input": (_split_rows, 1, True),
    "rowwise_rep": (_split_rows, 1, True),
    "embedding_rowwise": (_table_rows, 0, True),
}


def _why_left(module, style, ranks):
    """Why a layer stays as it is, or None."""
    _, dim, equal = _STYLES[style]
    kind = torch.nn.Embedding if style == "embedding_rowwise" else torch.nn.Linear
    if type(module) is not kind:
        return f"it is no torch.nn.{kind.__name__} but a {type(module).__name__}"
    weight = module.weight
    if not isinstance(weight, DTensor):
        return "its weight is not split"
    if weight.placements not in ((Shard(dim),), (Shard(dim - 2),)):
        return f"its weight is split as {weight.placements}"
    if weight.dtype not in (torch.float32, torch.bfloat16) or weight.device.type != "cpu":
        return f"its weight is {weight.dtype} on {weight.device.type}, not float32 or bfloat16 on the CPU"
    if equal and weight.shape[dim] % ranks != 0:
        return f"{ranks} ranks cannot share {weight.shape[dim]} equally"
    return None


def _install(module, run):
    before = module.forward

    def forward(x, *others, **named):
        if torch.is_grad_enabled() or isinstance(x, DTensor):
            return before(x, *others, **named)
        return run(x)

    module.forward = forward


def fuse(model):
    """Makes each linear layer that transformers has split one op. Returns a line per layer: fused, or left and why.

    `model` came from `from_pretrained(..., tp_plan="auto")`, with "cpu:weft" as backend or weft.init() called. Call it
    once, when the weights are loaded: it holds on to their memory.
    """
    plan = getattr(model, "tp_plan", None)
    if not plan:
        raise RuntimeError('weft.fuse: the model has no tp_plan; load it with from_pretrained(..., tp_plan="auto")')
    lines = []
    for name, module in model.named_modules():
        style = plan.get(re.sub(r"\.\d+(?=\.|$)", ".*", name))
        if style is None:
            continue
        if style not in _STYLES:
            lines.append(f"{name}, {style}: left, weft.fuse knows no such style")
            continue
        weight = getattr(module, "weight", None)
        mesh = weight.device_mesh if isinstance(weight, DTensor) else None
        world = name_of(mesh if mesh is None or mesh.ndim == 1 else (mesh, "tp"))
        why = _why_left(module, style, place_in(world)[1])
        if why is None:
            _install(module, _STYLES[style][0](_local(weight), _local(getattr(module, "bias", None)), world))
        lines.append(f"{name}, {style}: fused" if why is None else f"{name}, {style}: left, {why}")
    if not lines:
        raise RuntimeError(f"weft.fuse: no layer of {type(model).__name__} is in its tp_plan")
    return lines
