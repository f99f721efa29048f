"""Runs the bodies of bodies/ as ranks, and what needs a view from outside: faults, launchers, the library itself."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
import ranks

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    "body",
    ["agreement", "collectives", "gradients", "epilogues", "counted", "bags", "c10d"]
    + ["narrow", "narrow_collectives", "narrow_gradients", "narrow_c10d"],
)
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_agrees_with_plain_torch(body, num_ranks):
    ranks.run(body, num_ranks)


@pytest.mark.parametrize("body", ["agreement", "epilogues", "counted", "narrow"])
@pytest.mark.parametrize("way", ["fused", "window", "after"])
def test_every_way_agrees(body, way):
    ranks.run(body, 2, WEFT_WAY=way)


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_windows_of_bfloat16(num_ranks):
    ranks.run("narrow_windows", num_ranks, WEFT_WAY="window")


@pytest.mark.parametrize("body", ["opcheck", "fullgraph", "counts_compiled", "bags_of_one_size", "bad_input", "bad_counts", "own_plan", "aliases", "explain", "threads"])
def test_two_ranks(body):
    ranks.run(body, 2)


@pytest.mark.parametrize("body", ["styles", "fused", "backend", "left_alone", "data_parallel"])
def test_models(body):
    ranks.run(body, 2, timeout=600)  # Inductor compiles C++ for each graph


def test_a_group_is_joined_by_its_ranks_alone():
    ranks.run("groups", 3)


def test_many_shapes_have_bounded_memory():
    ranks.run("many_shapes", 2, SHAPES="1000")


def test_a_killed_rank_is_named_within_two_seconds():
    store = ranks.new_store()
    survivor, victim = ranks.start("killed", 2, store)
    try:
        assert victim.stdout.readline() == "running\n"
        assert survivor.stdout.readline() == "running\n"
        killed_at = time.time()
        victim.kill()
        seen, said = survivor.communicate(timeout=20)[0].splitlines()[0].split(" ", 1)
        assert "rank 1" in said and float(seen) - killed_at < 2, (float(seen) - killed_at, said)
        assert survivor.returncode == 0, "it is alive, and ends by itself"
    finally:
        survivor.kill()
        victim.kill()


def test_alone():
    script = "import torch, weft; weft.init(); print(weft.size(), weft.all_reduce(torch.ones(1, 2)).tolist())"
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WEFT_RANK")}
    out = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120)
    assert out.stdout == "1 [[1.0, 1.0]]\n", out.stderr


SUM = "import torch, weft; weft.init(); print(weft.all_reduce(torch.ones(1, 1)).item())"


def test_torchrun(tmp_path):
    script = tmp_path / "sum.py"
    script.write_text(SUM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert out.returncode == 0 and out.stdout.count("2.0") == 2, out.stdout + out.stderr


@pytest.mark.parametrize("example", sorted((ROOT / "python" / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example(example):
    assert len(example.read_text().splitlines()) <= 60
    for module in re.findall(r"^import (transformers|triton)$", example.read_text(), re.M):
        pytest.importorskip(module, minversion={"triton": "3.9"}.get(module))  # 3.6's interpreter fails with numpy 2.4
        if module == "transformers":
            pytest.importorskip("accelerate")  # transformers 5.23 asks for it where a model is split
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(example)]
    out = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert out.returncode == 0 and out.stdout, out.stdout + out.stderr


def test_weft_run():
    launcher = ROOT / "build" / "weft"
    if not launcher.exists():
        pytest.skip("build/weft is not there")
    command = [str(launcher), "run", "-n", "2", "--", sys.executable, "-c", SUM]
    out = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert out.returncode == 0 and out.stdout.count("2.0") == 2, out.stdout + out.stderr


def test_mpirun():
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not there")
    command = ["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-c", SUM]
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert out.returncode == 0 and out.stdout.count("2.0") == 2, out.stdout + out.stderr


def test_the_library_needs_torch_and_the_system_alone():
    import weft

    library = pathlib.Path(weft.__path__[0]) / "_weft.so"
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"\(NEEDED\).*\[(.*)\]", needed))
    system = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
    assert names <= system | {"libtorch_cpu.so"}, names
    shown = subprocess.run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    foreign = [line for line in shown.splitlines() if re.search(r"fmt::|SSL_|nlohmann", line)]
    assert not foreign, foreign[:5]
