#!/usr/bin/env python3
"""What the code weighs, and its speed against an older build: the tables `weight` and `speed` of docs/results/build.md.

Lines are counted in tracked C++ files; tests are *_test.* and tests/. The older program is built by hand, and takes turns with this one:

    git worktree add /tmp/before d241ec9 && cmake -S /tmp/before -B /tmp/before/build -G Ninja && ninja -C /tmp/before/build weft

usage: tools/page_build.py [--build build] [--only TABLE ...] [--before /tmp/before/build] [--quick]
"""

import pathlib
import statistics
import subprocess

from page import ROOT, Page, json_of, slashed

BEFORE = "d241ec9"
CODE = [f"*.{ending}" for ending in ("cc", "h", "cu", "cuh", "inc")]
TESTS = ["*_test.*", "tests/*"]
# What has come since: the GPU, pipelines and training, networks of many ranks, TLS, PyTorch.
SINCE = ["weft/exec/cuda/*", "weft/study/device/*", "weft/schedule/*", "weft/pipeline/*", "weft/study/schedule/*", "weft/study/train/*", "cli/schedule/*",
         "cli/train/*", "weft/sim/net/*", "weft/sim/step/*", "weft/transport/wire/tls_*", "python/*", "tools/*"]
OPS = {
    "gemm-rs 2048 x 2048, k 128": ["gemm-rs --m 2048 --n 2048 --k 128"],
    "gemm-ar 2048 x 2048, k 128": ["gemm-ar --m 2048 --n 2048 --k 128"],
    "ag-gemm 2048 x 128, k 1024": ["ag-gemm --m 2048 --n 128 --k 1024"],
    "gemm-a2a 2048 x 1024, k 64": ["gemm-a2a --m 2048 --n 1024 --k 64"],
    "gemm-rs 2048 x 1024, k 418, 1 Gbit/s": ["gemm-rs --m 2048 --n 1024 --k 418 --link 1gbit,10us"],
    "gemv-ar n 256 / 1024 / 4096, k 64, back to back": [f"gemv-ar --n {n} --k 64 --paired 2000" for n in (256, 1024, 4096)],
    "decode of weft-16 at 2 ranks, per token": [""],
}


def lines(commit, wanted, without=()):
    """Of the tracked files that match, in a commit."""
    paths = [*wanted, *(f":!{path}" for path in without)]
    printed = subprocess.run(["git", "grep", "-c", "", commit, "--", *paths], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return sum(int(line.rpartition(":")[2]) for line in printed.splitlines())


def casts(commit):
    printed = subprocess.run(["git", "grep", "-o", "static_cast", commit, "--", "weft", "cli"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return len(printed.splitlines())


def weight(weft):
    weft.log.append({"command": "tools/page_build.py --only weight", "printed": ""})

    def column(commit):
        code = lines(commit, CODE, TESTS)
        return [f"{code:,}", f"{lines(commit, CODE, TESTS + SINCE):,}", f"{lines(commit, ['cli/*.cc', 'cli/*.h'], TESTS):,}",
                f"{lines(commit, CODE) / code - 1:.3f}", f"{casts(commit):,}", f"{lines(commit, ['tools/*.py']):,}"]
    names = ["C++ lines without tests", "the same features", "C++ lines of cli/", "lines of tests per line without", "casts (`static_cast`) in weft/ and cli/", "tools/*.py"]
    return ["what", "before:", "now:"], [list(row) for row in zip(names, column(BEFORE), column("HEAD"))]


def measured(weft, build, words):
    """Microseconds of one run of the fused op, or of a token."""
    program, rounds = str(build / "weft"), 5 if weft.quick else 31
    if not words:
        prompt = ["--prompt", "The kernel is", "--max-tokens", "32" if weft.quick else "128"]
        return 1e3 * json_of(weft.call([program, "generate", "--model", ROOT / "models/weft-16", "--ranks", "2", *prompt, "--json"]))["ms_per_token"]
    seen = json_of(weft.call([program, "bench", *words.split(), "--ranks", "2", "--threads", "1", "--rounds", rounds, "--json"]))
    return seen["paired"]["fused_us"] if "--paired" in words else seen["fused_us"]


def speed(weft):
    """In turns: before, now, now again. The last two differ by the band."""
    if not weft.options.before:
        raise RuntimeError("--before FOLDER: where the older program is built; --help says how")
    before, rows = pathlib.Path(weft.options.before).resolve(), []
    for name, variants in OPS.items():
        times = [[[], [], []] for _ in variants]
        for _ in range(1 if weft.quick else 5):
            for words, runs in zip(variants, times):
                for build, took in zip((before, weft.build, weft.build), runs):
                    took.append(measured(weft, build, words))
        old, new, again = ([statistics.median(runs[i]) for runs in times] for i in range(3))
        form = ".2f" if len(variants) > 1 else ",.0f"
        rows.append([name, slashed(old, form), slashed(new, form), slashed(n / o for n, o in zip(new, old)), slashed((abs(n / a - 1) for n, a in zip(new, again)), ".3f")])
    return ["fused op", "before, us:", "now, us:", "now / before:", "now / now, off by:"], rows


if __name__ == "__main__":
    Page("build", __doc__, {"weight": weight, "speed": speed}).main(lambda parser: parser.add_argument("--before", help="folder of the older build"))
