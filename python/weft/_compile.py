"""torch.compile(model, backend="weft"): Inductor, with products and collectives that belong together fused before.

A pass over Inductor's graph, after autograd has split it into forward and backward, rewrites

    product -> all_reduce | reduce_scatter      into linear_all_reduce, linear_reduce_scatter
    all_gather -> product                       into all_gather_linear, where the product is the rows' only reader

of any model that asks for them by functional collectives, as DTensor does. `weft.collectives()` lists every collective
of what was compiled: fused, or left as it is and why.
"""

import torch
import torch.distributed as dist
from torch._inductor.custom_graph_pass import CustomGraphPass

from weft import _ops  # noqa: F401
from weft._join import name_of

_aten, _c10d, _weft = torch.ops.aten, torch.ops._c10d_functional, torch.ops.weft
_found = []


def collectives():
    """A line per collective that torch.compile met with backend="weft", in the order in which it met them."""
    return list(_found)


class _Fuse(CustomGraphPass):
    def __call__(self, graph):
        for node in list(graph.nodes):
            if node.op != "call_function":
                continue
            kind = _KINDS.get(node.target)
            if kind is None:
                continue
            what = f"{kind} of {tuple(node.args[0].meta['val'].shape)}"
            why_not = _gather(graph, node) if kind == "all_gather" else _sum(graph, node, kind)
            _found.append(f"{what}: left, {why_not}" if why_not else f"{what}: fused")
        graph.eliminate_dead_code()
        graph.lint()

    def uuid(self):
        return None  # nothing is kept: what is compiled has joined the group, and is listed


_KINDS = {
    _c10d.all_reduce.default: "all_reduce",
    _c10d.all_reduce_.default: "all_reduce",
    _c10d.reduce_scatter_tensor.default: "reduce_scatter",
    _c10d.all_gather_into_tensor.default: "all_gather",
}


def _world(node):
    return name_of(dist.distributed_c10d._resolve_process_group(node.args[-1]))


def _waited(node):
    users = list(node.users)
    waits = len(users) == 1 and users[0].target is _c10d.wait_tensor.default
    return users[0] if waits else None


def _turned(graph, matrix):
    """(n, k) of what a product reads as (k, n)."""
    if matrix.target is _aten.permute.default and list(matrix.args[1]) == [1, 0]:
        return matrix.args[0]
    turned = graph.call_function(_aten.permute.default, (matrix, [1, 0]))
    turned.meta["val"] = matrix.meta["val"].permute(1, 0)
    return turned


def _unfit(product):
    if product.target is not _aten.mm.default:
        return "its neighbour is no plain product"
    value = product.meta["val"]
    return "" if value.dtype == torch.float32 and value.device.type == "cpu" else "it is not float32 on the CPU"


def _replace(graph, old, op, *arguments):
    new = graph.call_function(op, arguments)
    new.meta["val"] = old.meta["val"]
    old.replace_all_uses_with(new)


def _sum(graph, node, kind):
    """Rewrites it and returns "", or why not."""
    product, wait = node.args[0], _waited(node)
    if wait is None:
        return "its result has several readers before it is there"
    if node.args[1] != "sum":
        return f"it is no sum but {node.args[1]}"
    why_not = _unfit(product)
    if why_not:
        return why_not
    if len(product.users) > 1:
        return "the product has another reader"
    op = _weft.linear_all_reduce if kind == "all_reduce" else _weft.linear_reduce_scatter
    x, matrix = product.args
    with graph.inserting_before(wait):
        _replace(graph, wait, op.default, x, _turned(graph, matrix), None, _world(node))
    return ""


def _gather(graph, node):
    wait = _waited(node)
    if wait is None:
        return "its result has several readers before it is there"
    if len(wait.users) != 1:
        return f"its rows have {len(wait.users)} readers"
    product = next(iter(wait.users))
    why_not = _unfit(product)
    if why_not:
        return why_not
    if product.args[0] is not wait or product.args[1] is wait:
        return "the rows are not the product's left side"
    with graph.inserting_before(product):
        matrix = _turned(graph, product.args[1])
        _replace(graph, product, _weft.all_gather_linear.default, node.args[0], matrix, None, _world(node))
    return ""


def backend(module, inputs):
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, inputs, config_patches={"post_grad_custom_pre_pass": _Fuse()})
