#!/usr/bin/env python3
"""Runs every line of the CPU bars by commands of this repository and writes docs/results/cpu.md, cpu.json and SVGs.

Each section is measured by itself and kept in cpu.json at once, so that a run that is cut off loses one section at most:
run it again with --only SECTION, or with --missing to measure what is not there yet. A bar holds if the ratio meets its
limit within the A/A band of that cell. Ratios come from one run each; the machine should be quiet.

usage: tools/page_cpu.py [--build build] [--out docs/results] [--only SECTION ...] [--missing] [--quick] [--list] [--write]
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from page import Page, over, row

LINKS = ["10gbit,10us", "1gbit,10us"]


class Weft:
    """The weft program, on two local ranks or, beside MPI, under mpirun."""

    def __init__(self, options):
        self.build, self.quick, self.out = options.build, options.quick, pathlib.Path(options.out)
        self.cluster = calibrated(self.build)
        self.mpirun = shutil.which("mpirun") if pathlib.Path(self.build, "weft_mpi.so").exists() else None

    def environment(self):
        more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if self.cluster:
            more["WEFT_CLUSTER"] = self.cluster
        return {**os.environ, **more}

    def call(self, words):
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=self.environment(), timeout=900)
        if done.returncode != 0:
            raise RuntimeError(f"failed ({done.returncode}): {' '.join(words)}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def bench(self, words, rounds=31, mpi=True):
        rounds = 5 if self.quick else rounds
        command = f"weft bench {words} --threads 1 --rounds {rounds}"
        if mpi and self.mpirun:
            prefix = [self.mpirun, "--bind-to", "none", "--oversubscribe", "-n", "2"]
            shown = f"mpirun -n 2 {command}"
        else:
            prefix, command = [], command + " --ranks 2"
            shown = command
        seen = self.call(prefix + [f"{self.build}/weft", *command.split()[1:], "--json"])
        seen["command"] = shown
        return seen

    def program(self, name, words):
        """A program of bench/, built first where this machine has what it needs; None where it has not."""
        subprocess.run(["cmake", "--build", self.build, "--target", name], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        path = pathlib.Path(self.build, "bench", name)
        if not path.exists():
            return None
        seen = self.call([str(path), *words.split(), "--json"])
        return seen


def gemm(weft):
    rows = []
    for m, n, k in ((2048, 2048, 1024), (1000, 3000, 777), (8192, 1024, 1024)):
        seen = weft.bench(f"gemm --m {m} --n {n} --k {k}", rounds=11, mpi=False)
        rows.append(row(f"gemm {m} x {n} x {k}: of oneDNN", 0.95, ">=", over(seen["dnnl_us"], seen["fused_us"]), seen))
    return rows, []


def gemm_rs(weft):
    rows, all_seen = [], []
    bars = {32: (1.15, 1.45), 64: (1.10, 1.4), 128: (1.08, 1.3)}
    for k in (32, 64, 128, 512, 1024):
        seen = weft.bench(f"gemm-rs --m 2048 --n 2048 --k {k}", rounds=31 if k <= 128 else 11)
        all_seen.append(seen)
        if k not in bars:
            continue
        most, least = bars[k]
        rows.append(row(f"gemm-rs k {k}: fused / compute", most, "<=", over(seen["fused_us"], seen["compute_us"]), seen))
        rows.append(row(f"gemm-rs k {k}: sequential / fused", least, ">=", over(seen["sequential_us"], seen["fused_us"]), seen))
        if k == 128:
            rows.append(row("gemm-rs k 128: MPI / fused", 2.0, ">=", over(seen["mpi_us"], seen["fused_us"]), seen))
    return rows, all_seen


def gemm_ar(weft):
    rows, all_seen = [], []
    for k in (32, 64, 128, 512, 1024):
        seen = weft.bench(f"gemm-ar --m 2048 --n 2048 --k {k}", rounds=31 if k <= 128 else 11)
        all_seen.append(seen)
        if k == 128:
            rows.append(row("gemm-ar k 128: sequential / fused", 1.2, ">=", over(seen["sequential_us"], seen["fused_us"]), seen))
            rows.append(row("gemm-ar k 128: MPI / fused", 1.6, ">=", over(seen["mpi_us"], seen["fused_us"]), seen))
    return rows, all_seen


def gemv_ar(weft):
    rows, all_seen = [], []
    floor = weft.program("exchange_floor", "") or {}
    for n, most in ((256, 0.7), (1024, 0.5), (4096, 0.5)):
        seen = weft.bench(f"gemv-ar --n {n} --k 64 --paired 2000", rounds=15)
        paired = seen["paired"]
        all_seen.append(seen)
        note = f"adds {paired['extra_us']:.2f} us a run"
        if paired["mpi_allreduce_us"]:
            note += f"; MPI_Allreduce {paired['mpi_allreduce_us']:.2f} us"
        if str(n) in floor:
            note += (f"; two threads with no plan add {floor[str(n)]['added_us']:.2f} us, or take"
                     f" {floor[str(n)]['alone_us']:.2f} us with nothing between, bench/exchange_floor")
        rows.append(row(f"gemv-ar n {n} k 64, paired: (fused - compute) / MPI_Allreduce", most, "<=", paired["ratio"],
                        {**seen, "aa_band": paired["aa_band"], "fused_us": paired["fused_us"]}, note))
    return rows, all_seen


def gemm_a2a(weft):
    rows, all_seen = [], []
    for k, least in ((64, 1.3), (256, 1.08)):
        seen = weft.bench(f"gemm-a2a --m 2048 --n 1024 --k {k}")
        all_seen.append(seen)
        rows.append(row(f"gemm-a2a 2048 x 1024, k {k}: MPI / fused", least, ">=", over(seen["mpi_us"], seen["fused_us"]), seen))
        if k == 64:
            rows.append(row("gemm-a2a 2048 x 1024, k 64: sequential / fused", 1.1, ">=",
                            over(seen["sequential_us"], seen["fused_us"]), seen))
    return rows, all_seen


def embedding_a2a(weft):
    rows, all_seen = [], []
    for which, least in (("one-hot", 1.2), ("multi-hot", 1.0), ("all", 1.0)):
        for zipf in (0, 1.05):
            seen = weft.bench(f"embedding-a2a --workload dlrm-v2 --rows 100000 --batch 2048 --tables-of {which} --zipf {zipf}")
            all_seen.append(seen)
            rows.append(row(f"embedding-a2a DLRM-v2, {which} tables, {'Zipf 1.05' if zipf else 'uniform'}: sequential / fused",
                            least, ">=", over(seen["sequential_us"], seen["fused_us"]), seen))
    return rows, all_seen


def ag_gemm(weft):
    seen = weft.bench("ag-gemm --m 2048 --n 128 --k 1024")
    return [row("ag-gemm 2048 x 128, k 1024: fused / compute", 1.06, "<=", over(seen["fused_us"], seen["compute_us"]), seen),
            row("ag-gemm 2048 x 128, k 1024: sequential / fused", 1.10, ">=", over(seen["sequential_us"], seen["fused_us"]), seen)
            ], [seen]


def window(weft):
    rows = []
    for threads in (1, 2):
        words = f"--m 2048 --n 2048 --k 128 --owners 4 --threads {threads} --rounds {11 if weft.quick else 41}"
        seen = weft.program("window_gain", words)
        if seen is None:
            return [row("window: sgemm + copy-out / window", 1.2, ">=", None, {}, "bench/window_gain is not built")], []
        seen["command"] = f"build/bench/window_gain {words}"
        rows.append(row(f"window: unmodified sgemm into 4 owners, k 128, {threads} BLAS threads: sgemm + copy-out / window",
                        1.2, ">=", seen["gain"], seen, "bits equal, checked every round"))
    return rows, []


def floors(weft):
    seen = weft.program("kernel_floor", "")
    if seen is None:
        return [row("producers at their floors", 0.85, ">=", None, {}, "bench/kernel_floor is not built")], []
    return [row(f"{r['producer']} {r['shape']}: of the floor", 0.95 if r["producer"] == "gemm" else 0.85, ">=", r["ratio"],
                {"command": "build/bench/kernel_floor"}, r["note"]) for r in seen["rows"]], []


def depth_for(weft, words, flag, link, wanted):
    """The k (or n) at which compute is `wanted` times the communication: two quick looks, and one to correct them."""
    def look(depth):
        seen = weft.bench(f"{words} {flag} {depth} --link {link}", rounds=5, mpi=False)
        return seen["compute_us"], seen["comm_us"]
    low, high = look(64), look(256)
    slope = max((high[0] - low[0]) / 192, 1e-6)
    guess = max(1, round((wanted * high[1] - low[0]) / slope + 64))
    compute, comm = look(guess)
    return max(1, round(guess * wanted * comm / compute)) if guess > 256 else guess


def paced(weft):
    rows, all_seen = [], []
    ops = (("gemm-rs --m 2048 --n 1024", "--k"), ("gemm-ar --m 2048 --n 1024", "--k"), ("ag-gemm --m 1024 --k 1024", "--n"))
    for link in LINKS:
        for words, flag in ops:
            for wanted in (0.5, 1, 2):
                depth = depth_for(weft, words, flag, link, wanted)
                seen = weft.bench(f"{words} {flag} {depth} --link {link}", rounds=15, mpi=False)
                all_seen.append(seen)
                name = f"{words.split()[0]}, {link}, compute : comm {seen['compute_us'] / seen['comm_us']:.2f}"
                rows.append(row(f"{name}: hidden", 0.95, ">=", seen["hidden"], seen))
                if wanted == 1:
                    rows.append(row(f"{name}: decomposed / fused", 1.15, ">=", over(seen["decomposed_us"], seen["fused_us"]), seen))
    return rows, all_seen


def trace(weft):
    """What a timeline costs: the same benchmark with and without one, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {"": [], f" --trace {folder}/trace.json": []}
        for _ in range(2 if weft.quick else 5):
            for flag, times in runs.items():
                times.append(weft.bench(f"gemm-rs --m 2048 --n 2048 --k 64{flag}", rounds=15, mpi=False)["fused_us"])
    off, on = (statistics.median(times) for times in runs.values())
    spread = (max(runs[""]) - min(runs[""])) / off
    return [row("gemm-rs k 64 with --trace / without: fused, medians of 5 runs each", 1.02, "<=", on / off,
                {"command": "weft bench gemm-rs --m 2048 --n 2048 --k 64 --trace FILE"}, f"runs without differ by {spread:.3f}")], []


def collectives(weft):
    return [], [weft.bench(f"{op} --sizes 4K:64M", rounds=15) for op in ("rs", "ar", "ag", "a2a", "bcast")]


def walk(weft, op, flag, link="shm"):
    name = f"{flag.removeprefix('--')}_{op}{'' if link == 'shm' else '_' + link.split(',')[0]}.svg"
    seen = weft.bench(f"{op} {flag} --svg {weft.out / name} --link {link}", rounds=11, mpi=False)
    seen["command"] = seen["command"].replace(str(weft.out) + "/", "")
    seen["svg"] = name
    return seen


def axis(weft):
    return [], [walk(weft, op, "--axis", link) for link in ["shm", *LINKS] for op in ("gemm-rs", "gemm-ar", "ag-gemm")]


def sweep_of(op):
    def section(weft):
        seen = walk(weft, op, "--sweep")
        band = max(c["aa_band"] for c in seen["cells"])
        worst = sorted(seen["cells"], key=lambda c: -c["ratio"])[:5]
        note = "worst: " + ", ".join(f"{c['size_bytes'] // 1024} KB {seen['depth']} {c['depth']} {c['ratio']:.2f}" for c in worst)
        cells = len(seen["cells"])
        return [row(f"never slower, {op}: share of {cells} cells that hold", 1.0, ">=", seen["held"] / cells,
                    {"command": seen["command"]}, note),
                row(f"never slower, {op}: geomean of auto / best", 1.01, "<=", seen["geomean"],
                    {"command": seen["command"]}, f"largest A/A band {band:.3f}")], [seen]
    return section


SECTIONS = {
    "gemm": gemm, "gemm-rs": gemm_rs, "gemm-ar": gemm_ar, "gemv-ar": gemv_ar, "gemm-a2a": gemm_a2a,
    "embedding-a2a": embedding_a2a, "ag-gemm": ag_gemm, "window": window, "floors": floors, "paced": paced,
    "trace": trace, "collectives": collectives, "axis": axis,
    **{f"sweep-{op}": sweep_of(op) for op in ("gemm-rs", "gemm-ar", "gemm-a2a", "ag-gemm", "gemv-ar", "embedding-a2a")},
}


def head(report):
    return ["# CPU: what must hold, measured", "",
            f"{report['machine']}. Written by tools/page_cpu.py (`make bench`); every number has its command, its section a date and commit. "
            "Two ranks of one thread; ratios of medians of things timed in turn in one run; a bar holds within the A/A band of its cell."
            " Definitions: ../../README.md and `weft bench --help`. Where a bar is not met: [cpu-why.md](cpu-why.md), the bound from counts and"
            " what was tried."]


def calibrated(build):
    """The rates of this machine, measured once for all sections: what predictions are made from."""
    path = pathlib.Path(build, "calibrated.json")
    if not path.exists():
        subprocess.run([f"{build}/weft", "info", "--calibrate", "--save", str(path)], check=True, stdout=subprocess.DEVNULL)
    return str(path)


if __name__ == "__main__":
    Page("cpu", __doc__, SECTIONS, head, Weft).main()
