"""Weft: matrix products fused with their collectives, for PyTorch on CPUs and GPUs.

    import weft
    weft.init()                                # under torchrun, `weft run`, mpirun, or alone
    y = weft.linear_all_reduce(x, w)           # F.linear(x, w), summed over all ranks

Every entry is a torch op of one library that needs torch's stable ABI alone. docs/torch.md has the rest.
"""

from weft import _backend  # noqa: F401 (registers torch.distributed's backend "weft")
from weft import _cuda  # noqa: F401 (what is refused of tensors on GPUs)
from weft._join import init, leave
from weft._ops import (
    all_gather,
    all_gather_linear,
    all_reduce,
    all_to_all,
    embedding_bag_all_to_all,
    explain,
    linear_all_reduce,
    linear_all_to_all,
    linear_reduce_scatter,
    rank,
    reduce_scatter,
    report,
    run_plan,
    size,
)


def collectives():
    """A line per collective that torch.compile(backend="weft") met: fused, or left and why."""
    from weft import _compile  # Inductor takes a second to import

    return _compile.collectives()


def fuse(model):
    """A model that transformers has split over ranks, each of its linear layers one op; a line per layer."""
    from weft import _fuse  # DTensor takes a second to import

    return _fuse.fuse(model)


def __getattr__(name):
    """Colwise and Rowwise, styles for parallelize_module: DTensor takes a second to import."""
    if name in ("Colwise", "Rowwise"):
        from weft import _parallel

        return getattr(_parallel, name)
    raise AttributeError(f"module 'weft' has no attribute '{name}'")


__all__ = [
    "Colwise",
    "Rowwise",
    "all_gather",
    "all_gather_linear",
    "all_reduce",
    "all_to_all",
    "collectives",
    "embedding_bag_all_to_all",
    "explain",
    "fuse",
    "init",
    "leave",
    "linear_all_reduce",
    "linear_all_to_all",
    "linear_reduce_scatter",
    "rank",
    "reduce_scatter",
    "report",
    "run_plan",
    "size",
]
