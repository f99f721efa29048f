"""Tensors on a GPU: the ops have no kernels for them, and say so in a sentence. What there is on GPUs is weft.triton."""

import torch

OPS = (
    "linear_all_reduce linear_reduce_scatter all_gather_linear all_gather_linear_rows linear_finished linear_all_to_all "
    "embedding_bag_all_to_all embedding_bag_all_to_all_backward all_reduce reduce_scatter all_gather all_to_all "
    "all_to_all_counts run_plan"
).split()


def _refuse(op):
    def refuse(*arguments, **options):
        flat = [t for a in arguments for t in (a if isinstance(a, (list, tuple)) else [a])]
        where = next(t.device for t in flat if isinstance(t, torch.Tensor) and not t.is_cpu)
        raise RuntimeError(
            f"weft.{op}: a tensor is on {where}, and this op takes those of the CPU; move it with .cpu(), or make the "
            "product in a Triton kernel of your own (weft.triton)"
        )

    return refuse


for _op in OPS:
    torch.library.impl(f"weft::{_op}", "CUDA", _refuse(_op))
