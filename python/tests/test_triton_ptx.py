"""What Triton makes of a producer for an H100 or H200, without one: the order of its stores, waits and signals; and its
loop, which the compiler may leave unflattened, or serial, or spilling, without a word."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

triton = pytest.importorskip("triton")
KERNEL = pathlib.Path(__file__).parents[1] / "examples" / "triton_kernels" / "producer_gemm.py"
STAGES = 4

# Of argv: the file of a kernel, its numbers of warps and stages, rows and columns of its tiles, a module whose functions
# take the place of those of _kernel.py.
COMPILE = """
import importlib.util, json, pathlib, subprocess, sys, tempfile
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource
from weft.triton import _kernel

def module(path):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made

path, warps, stages, rows, cols, instead = sys.argv[1:]
if instead:
    _kernel._agreed = module(instead)._agreed
rows, cols, deep = int(rows), int(cols), 64 if int(rows) > 16 else 16
tile = {"BLOCK_M": rows, "BLOCK_N": cols, "BLOCK_K": deep}
types = {"plan": "*bf16", "a": f"tensordesc<bf16[{rows}, {deep}]>", "b": f"tensordesc<bf16[{cols}, {deep}]>"}
types.update(M="i32", N="i32", K="i32", **{name: "constexpr" for name in tile})
aligned = {(i,): [["tt.divisibility", 16]] for i in (0, 3, 4, 5)}  # as the launcher says of tensors and of such sizes
source = ASTSource(module(path).gemm.kernel, types, tile, aligned)
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": int(warps), "num_stages": int(stages)})
with tempfile.TemporaryDirectory() as folder:
    ptx = pathlib.Path(folder, "kernel.ptx")
    ptx.write_text(made.asm["ptx"])
    ptxas = [get_ptxas(90).path, "-v", "--gpu-name=sm_90a", str(ptx), "-o", f"{folder}/kernel.cubin"]
    said = subprocess.run(ptxas, capture_output=True, text=True, check=True).stderr
print(json.dumps({"ptx": made.asm["ptx"], "ttgir": made.asm["ttgir"], "ptxas": said, "shared": made.metadata.shared}))
"""


def compiled(kernel=KERNEL, warps=8, stages=STAGES, tile=(128, 256), instead=""):
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE, *map(str, (kernel, warps, stages, *tile, instead))]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr[-3000:]
    return json.loads(out.stdout)


@pytest.fixture(scope="module")
def made():
    return compiled()


@pytest.fixture(scope="module")
def ptx(made):
    return made["ptx"]


def reached(lines, begins, ends, at):
    """Lines that `at` matches and some path comes to from one that `begins` matches, with none that `ends` matches between."""
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    ahead = [i + 1 for i, line in enumerate(lines) if re.search(begins, line)]
    seen, found = set(), set()
    while ahead:
        i = ahead.pop()
        if i in seen or i >= len(lines):
            continue
        seen.add(i)
        if re.search(at, lines[i]):
            found.add(i)
        jump = re.search(r"\bbra(?:\.uni)?\s+(\S+);", lines[i])
        if jump:
            ahead.append(labels[jump[1]])
        if not re.match(ends, lines[i]) and not re.match(r"bra|ret", lines[i]):
            ahead.append(i + 1)
    return sorted(found)


STORE, BARRIER, TILE_LOAD = r"\bst\.global", r"bar\.sync", r"\bld\.global\.v4"
SIGNAL, ACQUIRE = r"\b(red|atom)\.(?=.*sys)(?=.*release)", r"\b(ld|atom)\.(?=.*sys)(?=.*acquire)"


def ordering_problems(ptx):
    """What would let a peer read a tile before it is there, or this rank read one too early."""
    lines = [line.split("//")[0].strip() for line in ptx.splitlines()]

    def with_words(words):
        return [i for i, line in enumerate(lines) if re.search(words, line)]

    problems = []
    if not with_words(ACQUIRE):
        problems.append("no wait acquires at system scope")
    if not with_words(SIGNAL):
        problems.append("no signal releases at system scope")
    if not with_words(STORE):
        problems.append("nothing is stored by threads")
    for i in reached(lines, STORE, BARRIER, SIGNAL):
        problems.append(f"no barrier between the stores of all threads and the signal of one: {lines[i]}")
    for i in reached(lines, ACQUIRE, BARRIER, TILE_LOAD):
        problems.append(f"no barrier between the wait of one thread and the loads of all: {lines[i]}")
    for i in reached(lines, "wait_group.read", "never", SIGNAL):
        problems.append(f"what was stored in bulk has been read, but need not be there: {lines[i]}")
    return problems


def test_ptx_for_sm_90_acquires_and_releases_at_system_scope(ptx):
    assert ".target sm_90" in ptx
    assert "wgmma" in ptx, "the product itself runs on tensor cores"
    assert ordering_problems(ptx) == []


@pytest.mark.parametrize("warps, tile", [(1, (16, 32)), (4, (128, 128))])
def test_any_number_of_warps_signals_behind_a_barrier(warps, tile):
    assert ordering_problems(compiled(warps=warps, tile=tile, stages=3)["ptx"]) == []


def test_tiles_are_moved_16_bytes_at_a_time(ptx):
    """A tile of 128 x 256 in bf16 is 16 such stores by each of 256 threads, and no other stores are for tiles."""
    assert len(re.findall(r"st\.global\.v4\.b32", ptx)) >= 16
    assert not re.findall(r"(?:ld|st)\.global\.b16", ptx)


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda ptx: re.sub(r"(acquire\S*)sys|sys(\S*acquire)", r"\1gpu\2", ptx), "no wait acquires"),
        (lambda ptx: re.sub(r"(release\S*)sys|sys(\S*release)", r"\1gpu\2", ptx), "no signal releases"),
        (lambda ptx: re.sub(r"bar\.sync", "bar.warp.sync", ptx), "the signal of one"),
        (lambda ptx: re.sub(r"bar\.sync", "bar.warp.sync", ptx), "the loads of all"),
        (lambda ptx: re.sub(r"(\.entry.*)", r"\1\ncp.async.bulk.wait_group.read 0;", ptx, count=1), "need not be there"),
    ],
)
def test_the_check_of_ptx_can_fail(ptx, change, problem):
    assert any(problem in said for said in ordering_problems(change(ptx))), ordering_problems(change(ptx))


def test_a_signal_has_a_barrier_of_its_own(tmp_path):
    """Not one that stands there by chance: without _agreed's, there is none."""
    instead = tmp_path / "instead.py"
    instead.write_text("import triton\n\n\n@triton.jit\ndef _agreed(value):\n    return value\n")
    problems = ordering_problems(compiled(instead=instead)["ptx"])
    if not problems and tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9):
        pytest.skip(f"Triton {triton.__version__} sets a barrier there by itself: without ours one is left")
    assert any("the signal of one" in said for said in problems)


def loops_around(ttgir, words):
    """Per operation that `words` matches, the lines of the `for`s around it, outermost first."""
    around, found = [], []
    for number, line in enumerate(ttgir.splitlines()):
        if re.search(words, line):
            found.append([at for at, opens in around if "scf.for" in opens])
        depth = line.count("{") - line.count("}")
        around += [(number, line)] * max(depth, 0)
        if depth < 0:
            del around[depth:]
    return found


def loop_problems(made, stages=STAGES):
    """What of a flattened loop was lost: next operands in flight while a tile is stored, products that follow each other."""
    problems = []
    products = loops_around(made["ttgir"], r"ttng\.warp_group_dot ")
    loads = loops_around(made["ttgir"], r"ttng\.async_tma_copy_global_to_local ")
    if {len(loops) for loops in products} != {1}:
        problems.append(f"not flattened: products are in {products}")
    if sum(loops in products for loops in loads) != 2 or sum(not loops for loops in loads) != 2 * (stages - 1):
        problems.append(f"not pipelined in {stages} stages: loads are in {loads}")
    if not any(loops in products for loops in loops_around(made["ttgir"], r"tt\.atomic_rmw add, release, sys")):
        problems.append("tiles are not signalled in the loop of their products")
    if re.search(r"\(C75\d\d\)", made["ptxas"]):
        problems.append(f"products are serialized: {made['ptxas']}")
    if not re.search(r"\b0 bytes spill stores, 0 bytes spill loads", made["ptxas"]):
        problems.append(f"spilled: {made['ptxas']}")
    return problems


def test_the_loop_is_flattened_and_pipelined_without_spills(made):
    assert loop_problems(made) == []
    assert made["shared"] <= 227 * 1024


PUT, SIGNALLED = "        wt.put(me, tile, acc)\n", "        wt.signal(me, tile)\n"


@pytest.mark.parametrize(
    "line, changed, problem",
    [
        (", flatten=True", "", "not flattened"),
        (SIGNALLED, "        tl.debug_barrier()\n" + SIGNALLED, "not pipelined"),
        (PUT, f"        if row < M:\n    {PUT}", "serialized"),
    ],
)
def test_the_check_of_the_loop_can_fail(line, changed, problem, tmp_path):
    text = KERNEL.read_text()
    assert text.count(line) == 1
    kernel = tmp_path / "kernel.py"
    kernel.write_text(text.replace(line, changed))
    problems = loop_problems(compiled(kernel))
    assert any(problem in said for said in problems), problems


def test_the_check_of_spills_can_fail():
    """Half as many threads: the sums of each take 256 registers, and it has 255."""
    assert any("spilled" in said for said in loop_problems(compiled(warps=4)))
