#!/usr/bin/env python3
"""Runs the ledger and writes the tables and the picture of docs/results/ledger.md, and the first screen in README.md.

usage: tools/page_ledger.py [--build build] [--only TABLE ...] [--quick]
"""

import datetime

from page import RESULTS, ROOT, Page, between, commit, link_name, machine

LINKS = ["shm", "10gbit,10us", "1gbit,10us", "250mbit,10us", "50mbit,10us"]
MODEL_LINKS = ["100mbit,10us", "250mbit,10us", "1gbit,10us"]
BLOCK = "t-nlg"
WORKLOADS = ["mega-gpt-2", "llama-2-70b", "mixtral-8x7b", "deepseek-v3-moe", "dlrm-v2"]
MODEL_ROWS = ["sequential", "decomposed", "fused", "fused_int8", "dropped", "dropped_int8", "compute"]
STYLES = ["sequential", "decomposed", "fused", "compute"]


def times(seen):
    return {row["name"]: row["measured_us"] for row in seen["rows"]}


def ms(us):
    return f"{us / 1000:.0f}"


def model(weft):
    rows = []
    for link in MODEL_LINKS:
        seen = weft.json(f"ledger --ranks 4 --link {link}")
        us, loss = times(seen), next(r["loss"] for r in seen["rows"] if r["name"] == "dropped_int8")
        rows.append([link_name(link), *(ms(us[name]) for name in MODEL_ROWS), f"{100 * (loss or 0):+.2f} %"])
    return ["link", "sequential:", "panels:", "fused:", "fused + int8:", "fused + dropped:", "all together:", "compute alone:", "perplexity:"], rows


def block(weft):
    rounds = "--rounds 3" if weft.quick else "--rounds 9"
    rows = []
    for name, link in [(BLOCK, link) for link in LINKS] + [(name, LINKS[3]) for name in WORKLOADS]:
        svg = f" --svg {RESULTS / 'ledger.svg'}" if (name, link) == (BLOCK, LINKS[3]) else ""
        seen = weft.json(f"ledger --workload {name} {rounds} --link {link}{svg}")
        us = times(seen)
        gain = min(us["sequential"], us["decomposed"]) / us["fused"]
        rows.append([name, link_name(link), f"{seen['compute_to_comm']:.2g} : 1", *(ms(us[style]) for style in STYLES),
                     "the same" if abs(gain - 1) <= seen["aa_band"] else f"{gain:.2f}"])
    return ["workload", "link", "compute : comm:", "sequential:", "panels:", "fused:", "compute alone:", "better of the others / fused:"], rows


def readme(weft):
    screen = weft.call(["weft", "ledger"]).strip().split("What to try next")[0].rstrip()
    page = ROOT / "README.md"
    body = f"`make run` prints this ({datetime.date.today()}, commit {commit()}, {machine()}):\n\n```\n{screen}\n```"
    page.write_text(between(page.read_text(encoding="utf-8"), "<!-- ledger -->", body), encoding="utf-8")


if __name__ == "__main__":
    Page("ledger", __doc__, {"model": model, "block": block, "readme": readme}).main()
