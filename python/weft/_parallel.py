"""Weft's styles for torch's parallelize_module: a linear layer and its collective are one op, without torch.compile.

    parallelize_module(block, mesh, {"up": weft.Colwise(), "down": weft.Rowwise()})

Parameters become DTensors, as with torch's own styles, so optimisers and checkpoints see what they know. What goes in
and out are plain tensors: every rank's copy, or its part along `dim`.
"""

import torch
import torch.nn.functional as F
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ParallelStyle

from weft import _ops


class _Columns(torch.autograd.Function):
    """F.linear by columns of a copy that all ranks have: the gradients of the copies are one sum."""

    @staticmethod
    def forward(ctx, x, w, bias, mesh):
        ctx.mesh, ctx.has_bias = mesh, bias is not None
        ctx.save_for_backward(x, w)
        return F.linear(x, w, bias)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        flat = grad.reshape(-1, grad.shape[-1])
        return (
            _ops.linear_all_reduce(grad.contiguous(), w.t(), group=ctx.mesh) if ctx.needs_input_grad[0] else None,
            flat.t() @ x.reshape(-1, x.shape[-1]) if ctx.needs_input_grad[1] else None,
            flat.sum(0) if ctx.has_bias else None,
            None,
        )


def _stacked(x, ranks, dim):
    """Parts along a dimension, one behind the other along the first."""
    return x if dim == 0 else torch.cat(x.chunk(ranks, dim))


def _unstacked(y, ranks, dim):
    return y if dim == 0 else torch.cat(y.chunk(ranks), dim)


class _Style(ParallelStyle):
    def __init__(self, dim=None):
        super().__init__()
        self._dim = dim

    def _apply(self, module, mesh):
        name = f"weft.{type(self).__name__}"
        if not isinstance(module, torch.nn.Linear):
            raise RuntimeError(f"{name} is for torch.nn.Linear, not {type(module).__name__}; give another style")
        size = module.weight.shape[self.SHARD.dim]
        if size % mesh.size() != 0:
            raise RuntimeError(f"{name}: {mesh.size()} ranks cannot share {size} of {tuple(module.weight.shape)}")
        module.weight = torch.nn.Parameter(distribute_tensor(module.weight, mesh, [self.SHARD]))
        if module.bias is not None:
            module.bias = torch.nn.Parameter(distribute_tensor(module.bias, mesh, [self.BIAS]))
        module.forward = lambda x: self._run(x, module.weight.to_local(), self._bias(module), mesh)
        return module

    def _bias(self, module):
        return None if module.bias is None else module.bias.to_local()


class Colwise(_Style):
    """Each rank has some of the columns of the output. `dim`: its input is cut along it and gathered; None: a copy."""

    SHARD, BIAS = Shard(0), Shard(0)

    def _run(self, x, w, bias, mesh):
        if self._dim is None:
            return _Columns.apply(x, w, bias, mesh)
        return _unstacked(_ops.all_gather_linear(x, w, bias, group=mesh), mesh.size(), self._dim)


class Rowwise(_Style):
    """Each rank has some of the columns of the input; the sum goes to all, or is cut along `dim`."""

    SHARD, BIAS = Shard(1), Replicate()

    def _bias(self, module):
        if module.bias is None or self._dim is None:
            return super()._bias(module)
        return module.bias.to_local(grad_placements=[Partial()])  # of this rank's rows alone

    def _run(self, x, w, bias, mesh):
        if self._dim is None:
            return _ops.linear_all_reduce(x, w, bias, group=mesh)
        return _ops.linear_reduce_scatter(_stacked(x, mesh.size(), self._dim), w, bias, group=mesh)
