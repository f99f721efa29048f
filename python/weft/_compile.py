"""torch.compile(model, backend="weft"): Inductor, with products and collectives that belong together fused before.

A pass over Inductor's graph, after autograd has split it into forward and backward, rewrites

    product -> all_reduce | reduce_scatter      into linear_all_reduce, linear_reduce_scatter
    all_gather -> product                       into all_gather_linear; where others read the rows too, into one that
                                                gives the rows as well

of any model that asks for them by functional collectives, as DTensor does. `weft.collectives()` lists every collective
of what was compiled: fused, or left as it is and why.

Between a product and its collective a batch may be reshaped, and cut along one dimension and stacked along the first,
as DTensor does for Shard(1). A product makes each row from one row, so what moves rows behind it may as well move them
before it, and the other way round.
"""

import operator

import torch
import torch.distributed as dist
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort
from torch.fx.node import map_arg

from weft import _ops  # noqa: F401
from weft._join import name_of, place_in

_aten, _c10d, _weft = torch.ops.aten, torch.ops._c10d_functional, torch.ops.weft
_PRODUCTS = (_aten.mm.default, _aten.addmm.default)
_RESHAPES = (_aten.reshape.default, _aten.view.default, _aten._unsafe_view.default)
_found = []


class _Left(Exception):
    """Why a collective stays as it is."""


def collectives():
    """A line per collective that torch.compile met with backend="weft", in the order in which it met them."""
    return list(_found)


class _Fuse(CustomGraphPass):
    def __call__(self, graph):
        for node in list(graph.nodes):
            kind = _KINDS.get(node.target) if node.op == "call_function" else None
            if kind is None:
                continue
            what = f"{kind} of {tuple(node.args[0].meta['val'].shape)}"
            try:
                _fuse_gather(graph, node) if kind == "all_gather" else _fuse_sum(graph, node, kind)
                _found.append(f"{what}: fused")
            except _Left as why:
                _found.append(f"{what}: left, {why}")
        stable_topological_sort(graph)
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


def _shape(node):
    return list(node.meta["val"].shape)


def _call(graph, op, *arguments):
    node = graph.call_function(op, arguments)
    node.meta["val"] = op(*map_arg(arguments, lambda given: given.meta["val"]))
    return node


def _reshaped(graph, node, shape):
    return node if _shape(node) == list(shape) else _call(graph, _aten.reshape.default, node, list(shape))


def _restacked(graph, node, parts, cut, stack):
    """Cut along one dimension into so many parts, which are stacked along another."""
    pieces = _call(graph, _aten.split.Tensor, node, _shape(node)[cut] // parts, cut)
    return _call(graph, _aten.cat.default, [_call(graph, operator.getitem, pieces, i) for i in range(parts)], stack)


def _read_restacked(node, parts):
    """(what is cut, along which dimension, stacked along which), or None where the node is none such."""
    if node.target is not _aten.cat.default:
        return None
    pieces, stack = node.args[0], node.args[1] if len(node.args) > 1 else 0
    if len(pieces) != parts or any(piece.target is not operator.getitem for piece in pieces):
        return None
    split = pieces[0].args[0]
    if split.target is not _aten.split.Tensor or [piece.args for piece in pieces] != [(split, i) for i in range(parts)]:
        return None
    cut = split.args[2] if len(split.args) > 2 else 0
    whole = _shape(split.args[0])
    return (split.args[0], cut, stack) if split.args[1] * parts == whole[cut] and cut != stack else None


def _keeps_rows(node):
    """A reshape that leaves the last dimension, and so every row, whole."""
    return node.target in _RESHAPES and _shape(node)[-1] == _shape(node.args[0])[-1]


def _waited(node):
    """The one wait for a collective. From torch 2.15 on every reader may have its own: they become the first."""
    if not node.users or any(user.target is not _c10d.wait_tensor.default for user in node.users):
        raise _Left("its result has several readers before it is there")
    first, *more = (user for user in node.graph.nodes if user in node.users)
    for again in more:
        again.replace_all_uses_with(first)
        node.graph.erase_node(again)
    return first


def _turned(graph, matrix):
    """(n, k) of what a product reads as (k, n)."""
    if matrix.target is _aten.permute.default and list(matrix.args[1]) == [1, 0]:
        return matrix.args[0]
    return _call(graph, _aten.permute.default, matrix, [1, 0])


def _parts_of(product):
    """(bias or None, x, matrix (k, n)) of a product that Weft can make."""
    value = product.meta["val"]
    if value.dtype not in (torch.float32, torch.bfloat16) or value.device.type != "cpu":
        raise _Left("it is not float32 or bfloat16 on the CPU")
    if product.kwargs:
        raise _Left("its product is scaled")
    if product.target is _aten.mm.default:
        return None, *product.args
    bias, x, matrix = product.args
    if len(_shape(bias)) != 1:
        raise _Left("what is added to its product is no bias")
    return bias, x, matrix


def _summed_bias(bias, ranks):
    """The sum over the ranks of what each adds: the bias itself, where each adds its Nth part."""
    if bias is None:
        return None
    if bias.target is _aten.div.Tensor and bias.args[1] == ranks:
        return bias.args[0]
    raise _Left(f"each rank adds a bias of its own before the sum, not a part of one (bias / {ranks})")


def _fuse_sum(graph, node, kind):
    wait, world = _waited(node), _world(node)
    ranks = place_in(world)[1]
    if node.args[1] != "sum":
        raise _Left(f"it is no sum but {node.args[1]}")
    product, read, restacked = node.args[0], node, None
    while product.target not in _PRODUCTS:
        if any(user is not read for user in product.users):
            raise _Left("the product has another reader")
        found = _read_restacked(product, ranks) if kind == "reduce_scatter" and restacked is None else None
        if found is not None and found[2] == 0 and found[1] < len(_shape(found[0])) - 1:
            restacked, pieces = found, product.args[0]
            product, read = found[0], pieces[0].args[0]
        elif _keeps_rows(product):
            product, read = product.args[0], product
        else:
            raise _Left("its neighbour is no product")
    if any(user is not read for user in product.users):
        raise _Left("the product has another reader")
    bias, x, matrix = _parts_of(product)
    bias = _summed_bias(bias, ranks)
    op = _weft.linear_all_reduce if kind == "all_reduce" else _weft.linear_reduce_scatter
    with graph.inserting_before(wait):
        if restacked is not None:
            whole, cut, stack = restacked
            x = _reshaped(graph, x, [*_shape(whole)[:-1], _shape(x)[-1]])
            x = _restacked(graph, x, ranks, cut, stack)
        elif kind == "reduce_scatter":
            x = _reshaped(graph, x, [*_shape(node.args[0])[:-1], _shape(x)[-1]])
        y = _call(graph, op.default, x, _turned(graph, matrix), bias, world)
        wait.replace_all_uses_with(_reshaped(graph, y, _shape(wait)))


def _places_of_rows(wait, ranks):
    """{node: how it was restacked or None} of all nodes that hold the gathered rows, in some order."""
    places, todo = {wait: None}, [wait]
    while todo:
        node = todo.pop()
        for user in node.users:
            if _keeps_rows(user):
                places[user] = places[node]
                todo.append(user)
            elif user.target is _aten.split.Tensor:
                for cat in {reader for piece in user.users for reader in piece.users}:
                    found = _read_restacked(cat, ranks)
                    if found is not None and found[0] is wait and found[1] == 0 and found[2] < len(_shape(cat)) - 1:
                        places[cat] = (_shape(wait), found[2])
                        todo.append(cat)
    return places


def _only_cut_for(split, places):
    """Whether the node cuts rows, and nobody but those places has the pieces."""
    return split.target is _aten.split.Tensor and all(cat in places for piece in split.users for cat in piece.users)


def _comes_from(node, source):
    seen, todo = set(), [node]
    while todo:
        one = todo.pop()
        if one is source:
            return True
        todo += [before for before in one.all_input_nodes if before not in seen]
        seen.update(one.all_input_nodes)
    return False


def _fuse_gather(graph, node):
    wait, world = _waited(node), _world(node)
    ranks = place_in(world)[1]
    places = _places_of_rows(wait, ranks)
    readers = {user for place in places for user in place.users if user not in places}
    products = [one for one in graph.nodes if one in readers and one.target in _PRODUCTS]
    products = [one for one in products if one.args[-2] in places and not _comes_from(one.args[-1], wait)]
    if not products:
        raise _Left("no product has its rows as its left side")
    product = products[0]
    bias, rows, matrix = _parts_of(product)
    restacked = places[rows]
    alone = all(one is product or _only_cut_for(one, places) for one in readers)
    with graph.inserting_before(product):
        w = _turned(graph, matrix)
        if alone:
            y = _call(graph, _weft.all_gather_linear.default, node.args[0], w, bias, world)
        else:
            both = _call(graph, _weft.all_gather_linear_rows.default, node.args[0], w, bias, world)
            y = _call(graph, operator.getitem, both, 0)
            wait.replace_all_uses_with(_call(graph, operator.getitem, both, 1))
        if restacked is not None:
            shape, stack = restacked
            y = _restacked(graph, _reshaped(graph, y, [*shape[:-1], _shape(y)[-1]]), ranks, 0, stack)
        product.replace_all_uses_with(_reshaped(graph, y, _shape(product)))


def backend(module, inputs):
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(module, inputs, config_patches={"post_grad_custom_pre_pass": _Fuse()})
