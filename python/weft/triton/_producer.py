"""@producer: a kernel that makes the tiles of a plan, checked against it at every launch."""

import inspect
import math

from weft.triton import _op


class Producer:
    """Launched as the kernel is, with an Op in place of its first argument, `plan`."""

    def __init__(self, kernel, rows, cols):
        self.kernel = kernel
        self.rows, self.cols = rows, cols
        self._signature = inspect.signature(kernel.fn)
        names = list(self._signature.parameters)
        for name in ("plan", rows, cols):
            if name not in names:
                raise RuntimeError(
                    f"weft.triton.producer: {kernel.fn.__name__} has no parameter {name}; it takes a plan first, and the "
                    'sizes of its tiles, by default BLOCK_M and BLOCK_N: say others as producer(rows="...", cols="...")'
                )
        if names[0] != "plan":
            raise RuntimeError(f"weft.triton.producer: the first parameter of {kernel.fn.__name__} is {names[0]}, not plan")

    def __getitem__(self, grid):
        def launch(op, *arguments, **options):
            self._check(op, grid, arguments, options)
            if not op.segments[0].is_cpu:  # who waits for a program is refused unless all are resident at once
                options = {"launch_cooperative_grid": True, **options}
            return self.kernel[op.grid](op.heads, *arguments, **options)

        return launch

    def _check(self, op, grid, arguments, options):
        name = self.kernel.fn.__name__
        if not isinstance(op, _op.Op):
            raise RuntimeError(f"weft.triton: {name} was launched with a {type(op).__name__} for its plan; give a weft.triton.Op")
        op.ready()
        given = self._signature.bind_partial(op, *arguments, **{k: v for k, v in options.items() if k in self._signature.parameters})
        given.apply_defaults()
        tile = tuple(given.arguments.get(side) for side in (self.rows, self.cols))
        if tile != op.tile:
            raise RuntimeError(
                f"weft.triton: {name} makes tiles of {tile[0]} x {tile[1]}, but the plan has {op.tile[0]} x {op.tile[1]}; "
                f"launch it with {self.rows}={op.tile[0]}, {self.cols}={op.tile[1]}, or make the plan for its tiles"
            )
        grid = grid(given.arguments) if callable(grid) else grid
        if math.prod(grid) != math.prod(op.grid) or grid[0] != op.grid[0]:
            raise RuntimeError(
                f"weft.triton: {name} is launched on {tuple(grid)} programs, but the plan's order was proved for "
                f"{op.grid[0]}: launch it as {name}[op.grid]"
            )


def producer(kernel=None, *, rows="BLOCK_M", cols="BLOCK_N"):
    """Marks a @triton.jit function whose first parameter is `plan`; `rows` and `cols` name the constexprs of its tile."""
    if kernel is None:
        return lambda kernel: Producer(kernel, rows, cols)
    return Producer(kernel, rows, cols)
