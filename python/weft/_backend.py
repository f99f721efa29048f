"""The c10d backend "weft": torch.distributed's own calls, so DDP, FSDP and DTensor, over Weft's collectives.

    dist.init_process_group("cpu:weft")

A group joins a world of Weft through its own store. What Weft has no plan for (dtypes beside float32 and bfloat16,
other reductions than sums and means, point to point, objects) goes to gloo, which every group has beside it.
"""

import math

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future

from weft._join import join_store

_ops = torch.ops.weft
_FACTORS = {dist.ReduceOp.SUM: lambda ranks: 1.0, dist.ReduceOp.AVG: lambda ranks: 1.0 / ranks}


def _run(op, *arguments):
    """No gradient goes through torch.distributed's calls: torch's Python autograd would cost more than a small op."""
    with torch._C._AutoDispatchBelowAutograd():
        return op(*arguments)


def _done(result):
    future = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future)


_TYPES = torch.float32, torch.bfloat16


def _fits(*tensors):
    return all(t.dtype in _TYPES and t.device.type == "cpu" and t.numel() > 0 for t in tensors)


def _rows(tensor, parts=1):
    """A matrix of the elements as they lie: rows that so many ranks can share, and not too long ones."""
    count = tensor.numel() // parts
    columns = next(c for c in (1024, 256, 64, 16, 4, count) if count % c == 0)
    return tensor.reshape(-1, columns)


class WeftGroup(dist.ProcessGroup):
    """What it does not define, and what it hands on to super(), is gloo's."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self.weft_name = join_store(store, rank, size)
        self._ranks = size
        # super() would come back here for exchanges of a single tensor, so they ask gloo itself.
        gloo = self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)

    def _factor(self, opts):
        """What the sum is to be multiplied by, or None where no sum is asked for."""
        make = _FACTORS.get(opts.reduceOp.op)
        return None if make is None else make(self._ranks)

    def _put(self, out, made, factor=1.0):
        out.copy_(made.reshape(out.shape))
        if factor != 1.0:
            out.mul_(factor)

    def _one_by_one(self, call, outputs, inputs, opts):
        for out, tensor in zip(outputs, inputs):
            call(out, tensor, opts).wait()
        return _done(outputs)

    def allreduce(self, tensors, opts):
        factor = self._factor(opts)
        if factor is None or not _fits(*tensors):
            return super().allreduce(tensors, opts)
        for tensor in tensors:
            self._put(tensor, _run(_ops.all_reduce.default, _rows(tensor), self.weft_name, True), factor)
        return _done(tensors)

    def allreduce_coalesced(self, tensors, opts):
        if self._factor(opts) is None or not _fits(*tensors):
            return super().allreduce_coalesced(tensors, opts)
        return self.allreduce(tensors, opts)

    def allgather(self, outputs, inputs, opts):
        if not _fits(*inputs):
            return super().allgather(outputs, inputs, opts)
        for parts, tensor in zip(outputs, inputs):
            every = _run(_ops.all_gather.default, _rows(tensor), self.weft_name, True).reshape(self._ranks, -1)
            for part, row in zip(parts, every):
                self._put(part, row)
        return _done(outputs)

    def all_gather_single(self, output, input, opts):
        if not _fits(input):
            return super().allgather([list(output.view(self._ranks, -1))], [input.reshape(-1)], opts)
        self._put(output, _run(_ops.all_gather.default, _rows(input), self.weft_name, True))
        return _done([output])

    def all_gather_single_coalesced(self, outputs, inputs, opts):
        return self._one_by_one(self.all_gather_single, outputs, inputs, opts)

    def reduce_scatter_single(self, output, input, opts):
        factor = self._factor(opts)
        if factor is None or not _fits(input):
            return super().reduce_scatter([output.view(-1)], [list(input.view(self._ranks, -1))], opts)
        self._put(output, _run(_ops.reduce_scatter.default, _rows(input, self._ranks), self.weft_name, True), factor)
        return _done([output])

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts):
        return self._one_by_one(self.reduce_scatter_single, outputs, inputs, opts)

    def reduce_scatter(self, outputs, inputs, opts):
        if self._factor(opts) is None or not all(_fits(*parts) for parts in inputs):
            return super().reduce_scatter(outputs, inputs, opts)
        whole = [torch.cat([part.reshape(-1) for part in parts]) for parts in inputs]
        return self.reduce_scatter_single_coalesced(outputs, whole, opts)

    def all_to_all_single(self, output, input, output_sizes, input_sizes, opts):
        if output_sizes or input_sizes:
            return self._exchange(output, input, list(output_sizes), list(input_sizes), opts)
        if not _fits(input):
            return self._gloo.alltoall_base(output, input, output_sizes, input_sizes, opts)
        self._put(output, _run(_ops.all_to_all.default, _rows(input, self._ranks), self.weft_name, True))
        return _done([output])

    def _exchange(self, output, input, output_sizes, input_sizes, opts):
        """Rows as counts say; a rank may have none, so only what is alike on all ranks may decide."""
        columns = math.prod(input.shape[1:])
        if input.dtype not in _TYPES or input.device.type != "cpu" or columns < 2:
            return self._gloo.alltoall_base(output, input, output_sizes, input_sizes, opts)
        rows = input.reshape(input.shape[0], columns)
        sizes = [
            given or [t.shape[0] // self._ranks] * self._ranks
            for given, t in ((input_sizes, input), (output_sizes, output))
        ]
        self._put(output, _run(_ops.all_to_all_counts.default, rows, *sizes, self.weft_name))
        return _done([output])

    # As torch before 2.13 calls them.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


dist.Backend.register_backend("weft", WeftGroup, devices=["cpu"])
