"""weft.triton without a GPU: kernels in Triton's interpreter, ranks as processes that share memory, against the reference
executor; and the PTX that the compiler makes of them for an H100 or H200."""

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


COMPILE = """
import sys
sys.path.insert(0, sys.argv[1])
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from producer_gemm import gemm
tile = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
types = {"plan": "*bf16", "a": "tensordesc<bf16[128, 64]>", "b": "tensordesc<bf16[256, 64]>", "M": "i32", "N": "i32", "K": "i32"}
aligned = {(0,): [["tt.divisibility", 16]]}  # as the launcher says of a tensor
source = ASTSource(gemm.kernel, {**types, **{name: "constexpr" for name in tile}}, tile, aligned)
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "num_stages": 3})
print(made.asm["ptx"])
"""


@pytest.fixture(scope="module")
def ptx():
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    out = subprocess.run([sys.executable, "-c", COMPILE, str(KERNELS)], env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-3000:]
    return out.stdout


def ordering_problems(ptx):
    """What would let a peer read a tile before it is there, or this rank read one too early."""
    lines = [line.strip() for line in ptx.splitlines()]

    def with_words(*words):
        return [i for i, line in enumerate(lines) if not line.startswith("//") and all(w in line for w in words)]

    signals = [i for i in with_words("release", "sys") if re.search(r"\b(red|atom)\b", lines[i])]
    problems = []
    if not [i for i in with_words("acquire", "sys") if re.search(r"\b(ld|atom)\b", lines[i])]:
        problems.append("no wait acquires at system scope")
    if not signals:
        problems.append("no signal releases at system scope")
    stores, barriers = with_words("st.global"), with_words("bar.sync")
    for signal in signals:
        stored = max((i for i in stores if i < signal), default=-1)
        if stored >= 0 and not any(stored < i < signal for i in barriers):
            problems.append(f"line {signal}: no barrier between the stores of all threads and the signal of one")
        if any(i < signal for i in with_words("wait_group.read")):
            problems.append(f"line {signal}: what was stored in bulk has been read, but need not be there")
    if not stores:
        problems.append("nothing is stored by threads")
    return problems


def test_ptx_for_sm_90_acquires_and_releases_at_system_scope(ptx):
    assert ".target sm_90" in ptx
    assert "wgmma" in ptx, "the product itself runs on tensor cores"
    assert ordering_problems(ptx) == []


def test_tiles_are_moved_16_bytes_at_a_time(ptx):
    """A tile of 128 x 256 in bf16 is 16 such stores by each of 256 threads, and no other stores are for tiles."""
    assert len(re.findall(r"st\.global\.v4\.b32", ptx)) >= 16
    assert not re.findall(r"(?:ld|st)\.global\.b16", ptx)


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda ptx: re.sub(r"(acquire\S*)sys|sys(\S*acquire)", r"\1gpu\2", ptx), "no wait acquires"),
        (lambda ptx: re.sub(r"(release\S*)sys|sys(\S*release)", r"\1gpu\2", ptx), "no signal releases"),
        (lambda ptx: re.sub(r"bar\.sync", "bar.warp", ptx), "no barrier"),
        (lambda ptx: re.sub(r"(\.entry.*)", r"\1\ncp.async.bulk.wait_group.read 0;", ptx, count=1), "need not be there"),
    ],
)
def test_the_check_of_ptx_can_fail(ptx, change, problem):
    assert any(problem in said for said in ordering_problems(change(ptx))), ordering_problems(change(ptx))
