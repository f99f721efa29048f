"""What the processes of test_triton.py run under Triton's interpreter: one rank each, of `RANKS`, with memory at `SEGMENTS`."""

import os
import pathlib
import sys

os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is marked

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import weft.triton as wt

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples" / "triton_kernels"))
from producer_gemm import gemm

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("RANKS", "2"))
TILE = (16, 32)
K = 16


def op_of(shape, dtype=torch.float32, **options):
    plan = wt.plan(os.environ["SPACE"], RANKS, shape, TILE, dtype, os.environ["ROUTE"])
    segments = wt.shared_segments(plan, os.environ["SEGMENTS"])
    return plan, wt.Op(plan, programs=1, rank=RANK, segments=segments, **options)


def operands(shape, run, dtype):
    """Of all ranks. One column of x is not 0, so a product is one multiplication: only the order of sums decides bits.
    Those of bf16 are small whole numbers: the interpreter rounds what lies in the middle up, and GPUs to even."""
    m, n, k = shape
    draw = torch.Generator().manual_seed(run)

    def drawn(*sizes):
        if dtype == torch.bfloat16:
            return torch.randint(-7, 8, sizes, generator=draw).to(dtype)
        return torch.randn(*sizes, generator=draw)

    x = [torch.zeros(m, k, dtype=dtype) for _ in range(RANKS)]
    for rows in x:
        rows[:, run % k] = drawn(m)
    return x, [drawn(n, k) for _ in range(RANKS)]


def launch(op, shape, x, w):
    """In f32, whatever the plan's type: the interpreter's tl.dot takes the bits of bf16 for integers."""
    a, b = (TensorDescriptor.from_tensor(t.float(), [rows, K]) for t, rows in zip((x, w), TILE))
    gemm[op.grid](op, a, b, *shape, BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=K)


def agrees_with_ref():
    """Three runs back to back, with no barrier: bits of the reference executor on every rank."""
    shape = tuple(int(size) for size in os.environ["SHAPE"].split(","))
    dtype = getattr(torch, os.environ.get("DTYPE", "float32"))
    plan, op = op_of(shape, dtype, deadline=120)
    for run in range(3):
        x, w = operands(shape, run, dtype)
        launch(op, shape, x[RANK], w[RANK])
        made, owed = op.output().float(), wt.reference(plan, x, w)[RANK]
        assert made.shape == owed.shape and made.abs().max() > 0
        assert torch.equal(made, owed), f"run {run}: off by {(made - owed).abs().max()}"


def alone():
    """The other rank never comes."""
    shape = (64, 64, K)
    plan, op = op_of(shape, deadline=0.3)
    x, w = operands(shape, 0, torch.float32)
    launch(op, shape, x[RANK], w[RANK])
    for call in (op.output, lambda: launch(op, shape, x[RANK], w[RANK])):
        try:
            call()
            raise AssertionError("was not refused")
        except RuntimeError as error:
            print(error)


@triton.jit
def _count(out, LENGTH: tl.constexpr):
    seen = 0
    for i in range(0, tl.load(out)):
        seen += i
    tl.store(out + LENGTH, seen)


def probe():
    """What the others take for granted of the interpreter: 3.6's fails with numpy 2.4, whose int() takes no arrays."""
    out = torch.tensor([4, 0])
    _count[(1,)](out, 1)
    assert out.tolist() == [4, 6]


def refused(call):
    try:
        call()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
        return
    raise AssertionError("was not refused")


def refusals():
    """One sentence each, and the op goes on."""
    shape = (64, 64, K)
    plan = wt.plan("keep", 1, shape, TILE, torch.float32)
    op = wt.Op(plan, programs=1)
    x, w = operands(shape, 0, torch.float32)
    a, b = TensorDescriptor.from_tensor(x[0], [32, K]), TensorDescriptor.from_tensor(w[0], [32, K])
    refused(lambda: gemm[op.grid](op, a, b, *shape, BLOCK_M=32, BLOCK_N=32, BLOCK_K=K))
    refused(lambda: gemm[(2,)](op, a, b, *shape, BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=K))
    refused(lambda: gemm[op.grid](x[0], a, b, *shape, BLOCK_M=TILE[0], BLOCK_N=TILE[1], BLOCK_K=K))
    refused(lambda: wt.Op(plan, programs=2))
    refused(lambda: wt.Op(plan, programs=1, rank=1))
    refused(lambda: wt.Op(plan, programs=1, segments=[torch.zeros(8, dtype=torch.uint8)]))
    refused(lambda: wt.Op(wt.plan("reduce_scatter", 2, shape, TILE, torch.float32), programs=1, rank=0))
    refused(lambda: wt.Op(wt.plan("keep", 1, (64, 36, K), (16, 36), torch.float32), programs=1))
    refused(lambda: wt.plan("keep", 1, shape, TILE, torch.float16))
    refused(lambda: wt.plan("scatter", 2, shape, TILE))
    refused(lambda: wt.Op("{}", programs=1))
    refused(lambda: wt.producer(rows="TALL")(gemm.kernel))
    launch(op, shape, x[0], w[0])
    assert torch.equal(op.output(), wt.reference(plan, x[:1], w[:1])[0])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
