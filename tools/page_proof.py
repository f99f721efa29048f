#!/usr/bin/env python3
"""Times the proofs of large plans and writes the table of docs/results/proof.md.

usage: tools/page_proof.py [--build build]
"""

from page import Page

OUTPUT = "--n 16384 --k 1024 --tile 128,128"
PLANS = [("gemm-rs", "ring"), ("gemm-ar", "ring"), ("gemm-ar", "two_shot"), ("gemm-a2a", "direct"), ("gemm-ag", "ring"), ("ag-gemm", "ring")]


def proof(weft):
    rows = []
    for op, route in PLANS:
        cells = []
        for ranks in (64, 1024):
            rows_of_rank = 16384 // ranks if op == "ag-gemm" else 16384  # ag-gemm gathers: --m is one rank's rows there
            seen = weft.json(f"plan {op} --ranks {ranks} --m {rows_of_rank} {OUTPUT} --route {route}")
            ms = seen["build_ms"] + seen["verify_ms"]
            cells.append(f"{ms:.1f} ms" if ms < 1000 else f"{ms / 1000:.2f} s")
        rows.append([op, route, *cells, f"{seen['tiles'] / 1e6:,.0f} million"])
    return ["op", "route", "64 ranks:", "1,024 ranks:", "tile-steps proved at 1,024:"], rows


if __name__ == "__main__":
    Page("proof", __doc__, {"proof": proof}).main()
