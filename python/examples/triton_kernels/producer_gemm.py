"""The product of plain_gemm.py as the producer of a plan: its tiles leave for their ranks as they are made.

a and b hold the rows of all ranks of the launch, one rank's after the other's.
"""

import triton
import triton.language as tl

import weft.triton as wt


@wt.producer
@triton.jit
def gemm(plan, a, b, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    me, here, first, programs, tiles = wt.begin(plan)
    for i in tl.range(first, tiles, programs, flatten=True):
        tile, row, col = wt.tile(me, i)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a.load([here * M + row, k]), b.load([here * N + col, k]).T, acc)
        wt.wait(me, tile)
        wt.put(me, tile, acc)
        wt.signal(me, tile)
    wt.end(me)
