"""weft.triton without a GPU: kernels in Triton's interpreter, ranks as processes that share memory, against the reference
executor. What the compiler makes of them: test_triton_ptx.py."""

import difflib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from ranks import outputs_of

triton = pytest.importorskip("triton")
HERE = pathlib.Path(__file__).parent
KERNELS = HERE.parent / "examples" / "triton_kernels"


def start(body, rank, env):
    given = {**os.environ, "RANK": str(rank), "OMP_NUM_THREADS": "1", **env}
    command = [sys.executable, str(HERE / "triton_bodies.py"), body]
    return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run(body, ranks, started=None, **env):
    """The output of each rank that was started, all of which must end well."""
    env = {"RANKS": str(ranks), "SPACE": "reduce_scatter", "ROUTE": "ring", **env}
    processes = [start(body, rank, env) for rank in range(ranks if started is None else started)]
    return outputs_of(processes, body, timeout=300)


@pytest.fixture(scope="module")
def interpreter():
    try:
        run("probe", 1)
    except AssertionError as failed:
        why = [line for line in str(failed).splitlines() if "Error" in line][-1]
        pytest.skip(f"the interpreter of Triton {triton.__version__} does not run here: {why[:200]}")


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(
    "space, route, ranks",
    [
        ("reduce_scatter", "ring", 2),
        ("reduce_scatter", "ring", 3),
        ("reduce_scatter", "direct", 3),
        ("all_reduce", "ring", 2),
        ("all_reduce", "two_shot", 2),
        ("all_reduce", "one_shot", 3),
        ("all_to_all", "direct", 2),
    ],
)
def test_processes_agree_with_ref(space, route, ranks, tmp_path):
    run("agrees_with_ref", ranks, SPACE=space, ROUTE=route, SHAPE="60,72,16", SEGMENTS=str(tmp_path / "segment"))


@pytest.mark.usefixtures("interpreter")
def test_tiles_of_bf16(tmp_path):
    run("agrees_with_ref", 2, SHAPE="64,64,16", DTYPE="bfloat16", SEGMENTS=str(tmp_path / "segment"))


@pytest.mark.usefixtures("interpreter")
def test_a_wait_is_bounded_and_names_rank_peer_and_tile(tmp_path):
    said, again = run("alone", 2, started=1, SEGMENTS=str(tmp_path / "segment"))[0].splitlines()
    assert re.search(r"rank 0 waited 0\.\d s for full\[\d+\] from rank 1, for tile \d+ \[\d+:\d+, \d+:\d+\] of step", said), said
    assert "saw 0 of 1 updates" in said, said
    assert "has failed; make a new op" in again, again


@pytest.mark.usefixtures("interpreter")
def test_refusals_are_one_sentence(tmp_path):
    said = run("refusals", 1)[0].splitlines()
    wanted = [
        "makes tiles of 32 x 32, but the plan has 16 x 32",
        "is launched on (2,) programs",
        "give a weft.triton.Op",
        "one after another",
        "rank 1 of a plan for 1 ranks",
        "at least",
        "needs the segments of all",
        "pad both to a multiple of 8",
        "tiles of torch.float16",
        'no space "scatter"',
        "the plan given to weft.triton",
        "has no parameter TALL",
    ]
    assert len(said) == len(wanted), "\n".join(said)
    for line, words in zip(said, wanted):
        assert words in line, line


def test_a_producer_is_the_plain_kernel_with_few_lines_changed():
    plain, made = ((KERNELS / name).read_text().split('"""', 2)[2].splitlines() for name in ("plain_gemm.py", "producer_gemm.py"))
    changed = [line for line in difflib.ndiff(plain, made) if line[0] in "+-" and line[2:].strip()]
    assert len(changed) <= 30, f"{len(changed)} lines:\n" + "\n".join(changed)
    assert sum(line[0] == "+" for line in changed) >= 5  # it is another kernel
