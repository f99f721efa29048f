#!/usr/bin/env python3
"""Measures products and fused ops by instruction set and writes the table of docs/results/isa.md. The machine should be quiet.

usage: tools/page_isa.py [--build build] [--quick]
"""

import json

from page import Page, slashed
from page_cpu import band, over

ISA_KS = (32, 64, 128, 256, 384, 1024)
GEMMS = {shapes: shapes.split(" / ") for shapes in ("2048x2048x1024 / 1000x3000x777 / 8192x1024x1024", "2048x1024x64 / 2048x128x1024 / 512x1024x4096 / 64x4096x1024")}
GEMMS["2048x2048, k 32 / 64 / 128 / 256"] = [f"2048x2048x{k}" for k in (32, 64, 128, 256)]


def floors(weft, producer):
    """Shape -> of the floor's rate."""
    printed = weft.program("kernel_floor", f"--only {producer} --json --rounds {5 if weft.quick else 31}")
    return {} if printed is None else {r["shape"]: r["ratio"] for r in json.loads(printed)["rows"]}


def strongest_us(seen):
    """The fastest product and Weft's fastest collective, or the fastest library's and MPI's: what `auto` must not lose to."""
    return min(us for us in (seen["sequential_us"], seen["mpi_us"]) if us)


def one_isa(weft, isa):
    """Figure and shape -> what is seen with this instruction set; libraries are held to it too."""
    weft.env["WEFT_ISA"] = isa
    weft.calibrate()
    try:
        gemm, gemv, bands = floors(weft, "gemm"), floors(weft, "gemv"), []
        seen = {("gemm, of the faster library's rate", name): slashed(gemm.get(shape) for shape in shapes) for name, shapes in GEMMS.items()}
        seen[("gemv, of a read loop's rate", "n 256 / 1024 / 4096, k 1024")] = slashed(gemv.get(f"n {n} k 1024") for n in (256, 1024, 4096))
        for op in ("gemm-rs", "gemm-ar"):
            runs = [weft.bench(f"{op} --m 2048 --n 2048 --k {k}", 21) for k in ISA_KS]
            shape = "k " + " / ".join(map(str, ISA_KS))
            seen[(f"{op}, fused / the fastest compute", shape)] = slashed(over(s, "fused_us", "floor_us") for s in runs)
            seen[(f"{op}, auto / the strongest sequential", shape)] = slashed(s["fused_us"] / strongest_us(s) for s in runs)
            bands.append(band(runs))
        seen[("A/A band at most", "of the two ops")] = max(bands)
        return seen
    finally:
        del weft.env["WEFT_ISA"]


def isa(weft):
    """Every instruction set that this machine can run, by WEFT_ISA; each has a calibration of its own."""
    own = weft.json("info")["machine_isa"]
    isas = ["avx2", "avx512"] if own == "avx512" else [own]
    seen = [one_isa(weft, name) for name in isas]
    return ["figure", "shape", *(f"{name}:" for name in isas)], [[*key, *(s.get(key, "–") for s in seen)] for key in seen[0]]


if __name__ == "__main__":
    Page("isa", __doc__, {"isa": isa}).main()
