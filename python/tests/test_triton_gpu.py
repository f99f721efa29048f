"""weft.triton on a GPU that its ranks share. Runs where there is one: python3 -m unittest, or with the other tests."""

import pathlib
import sys
import unittest

import torch

try:
    import triton  # noqa: F401

    import weft
    import weft.triton as wt
    from triton.tools.tensor_descriptor import TensorDescriptor

    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples" / "triton_kernels"))
    from producer_gemm import gemm
except ImportError:
    gemm = None

TILE, BLOCK_K = (128, 128), 64
SHAPE = (520, 392, 128)  # rows and columns that no tile divides


def whole_numbers(rows, k, seed):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(-1, 2, (rows, k), generator=draw).bfloat16()


def launch(op, x, w, shape=SHAPE):
    a, b = (TensorDescriptor.from_tensor(torch.cat(t).cuda(), [rows, BLOCK_K]) for t, rows in zip((x, w), TILE))
    gemm[op.grid](op, a, b, *shape, BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=BLOCK_K, num_warps=4)


@unittest.skipUnless(gemm and torch.cuda.is_available(), "no GPU, or no Triton")
class OnOneGpu(unittest.TestCase):
    def operands(self, ranks, run, shape=SHAPE):
        m, n, k = shape
        x = [whole_numbers(m, k, 10 * run + r) for r in range(ranks)]
        return x, [whole_numbers(n, k, 1000 + 10 * run + r) for r in range(ranks)]

    def agrees(self, space, route, ranks, shape=SHAPE, programs=8, **options):
        plan = wt.plan(space, ranks, shape, TILE, route=route)
        op = wt.Op(plan, programs=programs, **options)
        for run in range(3):
            x, w = self.operands(ranks, run, shape)
            launch(op, x, w, shape)
            for rank, owed in enumerate(wt.reference(plan, x, w)):
                self.assertTrue(torch.equal(op.output(rank).float().cpu(), owed), f"{space} {route}, rank {rank}, run {run}")

    def test_reduce_scatter(self):
        for route in ("ring", "direct"):
            self.agrees("reduce_scatter", route, 4)

    def test_all_reduce(self):
        for route in ("ring", "two_shot", "one_shot"):
            self.agrees("all_reduce", route, 3)

    def test_all_to_all_and_keep(self):
        self.agrees("all_to_all", "direct", 4)
        self.agrees("keep", "auto", 1)

    def test_one_block_of_k_and_programs_without_tiles(self):
        """Both loops are one: a tile of one block of k begins and ends in the same turn, and a program may have no tile."""
        for k in (BLOCK_K, 7 * BLOCK_K):
            self.agrees("reduce_scatter", "ring", 4, shape=(520, 392, k), programs=33)

    def test_paced_links(self):
        self.agrees("reduce_scatter", "ring", 4, link=(1e9, 5e-6))

    def test_a_graph_runs_again(self):
        plan = wt.plan("reduce_scatter", 4, SHAPE, TILE, route="ring")
        op = wt.Op(plan, programs=8)
        x, w = self.operands(4, 0)
        launch(op, x, w)  # compiles
        graph = torch.cuda.CUDAGraph()
        a, b = (TensorDescriptor.from_tensor(torch.cat(t).cuda(), [rows, BLOCK_K]) for t, rows in zip((x, w), TILE))
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(2):
                gemm[op.grid](op, a, b, *SHAPE, BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=BLOCK_K, num_warps=4)
        for _ in range(5):
            graph.replay()
        for rank, owed in enumerate(wt.reference(plan, x, w)):
            self.assertTrue(torch.equal(op.output(rank).float().cpu(), owed))
        self.assertEqual(op._states[:, 0].tolist(), [11] * 4)

    def test_a_wait_is_given_up(self):
        plan = wt.plan("reduce_scatter", 2, SHAPE, TILE, route="ring")
        other = wt.Op(plan, programs=8)  # whose segments this one's rank 1 never fills
        op = wt.Op(plan, programs=8, rank=0, segments=other.segments, deadline=0.2)
        x, w = self.operands(1, 0)
        launch(op, x, w)
        with self.assertRaisesRegex(RuntimeError, r"rank 0 waited 0\.\d s for full\[\d+\] from rank 1, for tile"):
            op.output()
        with self.assertRaisesRegex(RuntimeError, "make a new op"):
            launch(op, x, w)

    def test_sums_refuse_float32(self):
        weft.init()
        with self.assertRaisesRegex(RuntimeError, "weft.all_reduce: x is float32; what is multiplied or summed on a GPU is bfloat16"):
            weft.all_reduce(torch.ones(2, 2, device="cuda"))


if __name__ == "__main__":
    unittest.main()
