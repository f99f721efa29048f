"""A persistent product in Triton, as anybody writes it: a program makes one tile after another.

c (M, N) = a (M, K) times b (N, K) transposed, all three as tensor descriptors.
"""

import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    rows, cols = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for i in tl.range(tl.program_id(0), rows * cols, tl.num_programs(0), flatten=True):
        group = i // (GROUP_M * cols) * GROUP_M  # rows of tiles that share columns of b in L2
        height = min(rows - group, GROUP_M)
        row = (group + i % (GROUP_M * cols) % height) * BLOCK_M
        col = i % (GROUP_M * cols) // height * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a.load([row, k]), b.load([col, k]).T, acc)
        c.store([row, col], acc.to(c.dtype))
