"""weft.triton: a Triton kernel of your own as the producer of a plan.

    import weft.triton

    @weft.triton.producer
    @triton.jit
    def gemm(plan, a, b, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
        me, here, first, programs, tiles = weft.triton.begin(plan)
        for i in tl.range(first, tiles, programs, flatten=True):
            tile, row, col = weft.triton.tile(me, i)
            acc = ...                          # the tile at (row, col), from zero, in f32
            weft.triton.wait(me, tile)         # for what is added to it, and until its places may be written
            weft.triton.put(me, tile, acc)     # added up in the plan's order, stored on the ranks it belongs to
            weft.triton.signal(me, tile)       # who is told that it is there
        weft.triton.end(me)

    op = weft.triton.Op(weft.triton.plan("reduce_scatter", ranks=4, shape=(m, n, k), tile=(128, 256)), programs=33)
    gemm[op.grid](op, a, b, m, n, k, BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=4)
    y = op.output(rank=0)

Plain Triton: no fork of the compiler and nothing linked in. docs/triton.md has the rest.
"""

from weft.triton._kernel import begin, end, put, signal, tile, wait
from weft.triton._op import Op, plan, reference, shared_segments
from weft.triton._producer import producer

__all__ = ["Op", "begin", "end", "plan", "producer", "put", "reference", "shared_segments", "signal", "tile", "wait"]
