#!/usr/bin/env python3
"""Writes docs/results/t3.md and its pictures from `weft sim`: paper and ours side by side.

With --cpu it only measures this machine (two ranks; it should be quiet) and keeps what it saw in t3_cpu.json, from which
the page's last section is written.

usage: tools/page_t3.py [--build build] [--out docs/results] [--cpu]
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from bench import machine

SHAPES = [(2048, 2048, k) for k in (64, 256, 1024)] + [(1024, 4096, k) for k in (128, 512)] + [(4096, 1024, 256)]
LINKS = (None, "10gbit,10us")


def run(*words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit(f"failed ({done.returncode}): {' '.join(map(str, words))}\n{done.stderr[-2000:]}")
    return done.stdout


def table(head, rows, words=1):
    lines = ["| " + " | ".join(head) + " |", "|" + "".join("---|" if i < words else "---:|" for i in range(len(head)))]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows] + [""]


def paper(seen):
    def figure(value, unit):
        return f"{value:.2f} x" if unit == "x" else f"{value:.1f} %"
    rows = [(r["what"] + (" (a band, below)" if r["band"] else ""), figure(r["paper"], r["unit"]), figure(r["all"], r["unit"]),
             figure(r["fitted"], r["unit"]), f"{r['fit_error']:+.2f}", figure(r["predicted"], r["unit"]), f"{r['prediction_error']:+.2f}")
            for r in seen["paper"]["rows"]]
    lines = table(["figure", "paper", "ours, all 16", "Mega-GPT-2 (fitted)", "error", "T-NLG (predicted)", "error"], rows)
    return lines + table(["must hold", "to reach", "seen", "met"],
                         [(b["what"], b["target"], b["seen"], "yes" if b["met"] else "**no**") for b in seen["paper"]["bars"]], 4)


def cases(seen, large):
    names = ["t3", "t3_fifo", "t3_mca", "ideal_overlap", "ideal_nmc", "copy_engine", "fused_cu", "direct"]
    found = {}
    for c in seen["cases"]:
        if (c["tp"] == 32) == large:
            found.setdefault((c["model"], c["tp"], c["layer"]), {})[c["config"]] = c
    rows = []
    for (model, tp, layer), by in found.items():
        s, a = by["sequential"], by["t3_mca"]
        cut = 1 - a["dram_bytes"]["total"] / s["dram_bytes"]["total"]
        rows.append([f"{model} {layer}", tp, f"{s['gemm_us']:.0f}", f"{s['scatter_us']:.0f}", f"{s['gather_us']:.0f}"]
                    + [f"{by[n]['speedup']:.3f}" for n in names] + [f"−{100 * cut:.1f} %", f"{s['dram_bytes']['gemm_read'] / a['dram_bytes']['gemm_read']:.2f}",
                                                                    a["tracker_peak"]])
    head = ["sub-layer", "TP", "GEMM µs", "RS µs", "AG µs"] + [n.replace("_", "-") for n in names] + ["DRAM bytes", "GEMM reads fewer", "entries wanted"]
    return table(head, rows)


def band(seen):
    b = seen["band"]
    head = ["switch cost"] + [f"grant {int(g / 1024)} KiB" for g in b["grant_bytes"]]
    width = len(b["grant_bytes"])
    rows = [[f"{ns:.0f} ns"] + [f"{c['geomean']:.1f} / {c['max']:.1f}" for c in b["cells"][i * width:(i + 1) * width]] for i, ns in enumerate(b["switch_ns"])]
    return table(head, rows) + [f"First come first served: {b['fifo']['geomean']:.1f} / {b['fifo']['max']:.1f} %. The band: {b['low']:.1f} to {b['high']:.1f} %.", ""]


def sensitivity(seen):
    now = seen["sensitivity"]["now"]
    rows = []
    for p in seen["sensitivity"]["parameters"]:
        cells = []
        for config in ("ideal_overlap", "t3_mca", "t3"):
            for end in ("lower", "higher"):
                cells.append(f"{p[end][config]['geomean'] - now[config]['geomean']:+.1f}")
        rows.append([p["key"] + (" (free)" if p["free"] else ""), f"{p['value']:.4g}"] + cells)
    return table(["parameter", "value, base units", "ideal −20 %", "+20 %", "T3-MCA −20 %", "+20 %", "T3 −20 %", "+20 %"], rows)


def beyond(seen):
    b = seen["beyond"]
    lines = ["### All-gather fused into the product that reads it", ""]
    lines += table(["sub-layer, consumer", "TP", "sequential µs", "T3-MCA µs", "and the gather fused µs", "speedup T3-MCA", "both"],
                   [(f"{r['model']} {r['layer']} → {r['consumer']}", r["tp"], f"{r['sequential_us']:.0f}", f"{r['t3_mca_us']:.0f}", f"{r['both_us']:.0f}",
                     f"{r['sequential_us'] / r['t3_mca_us']:.2f}", f"{r['sequential_us'] / r['both_us']:.2f}") for r in b["gather_into_consumer"]])
    lines += ["### GEMM + all-to-all (an expert's second product)", ""]
    lines += table(["model", "devices", "m x n x k", "product µs", "exchange µs", "sequential µs", "remote-mapped stores µs", "on the CUs µs"],
                   [(r["model"], r["devices"], f"{r['m']} x {r['n']} x {r['k']}", f"{r['product_us']:.0f}", f"{r['exchange_us']:.0f}",
                     f"{r['product_us'] + r['exchange_us']:.0f}", f"{r['tracker_us']:.0f}", f"{r['fused_cu_us']:.0f}") for r in b["all_to_all"]])
    lines += ["### Generation: GEMV + all-reduce", "", "Latency decides: a ring of N − 1 hops, tracked or not, loses to a direct exchange; on 32 devices T3's ring is slower than sequential, for every hop reads and updates memory.", ""]
    lines += table(["sub-layer", "TP", "batch", "product µs", "sequential, ring µs", "sequential, direct µs", "T3-MCA µs", "on the CUs µs", "direct, tracked µs"],
                   [(f"{r['model']} {r['layer']}", r["tp"], r["batch"], f"{r['product_us']:.1f}", f"{r['sequential_us']:.1f}", f"{r['sequential_direct_us']:.1f}", f"{r['t3_mca_us']:.1f}",
                     f"{r['fused_cu_us']:.1f}", f"{r['direct_us']:.1f}") for r in b["generation"]])
    lines += ["### Whole models (data parallelism, embeddings and optimizer left out)", ""]
    lines += table(["model", "TP", "phase", "sequential s", "summed sub-layers", "T3", "T3-MCA", "ideal"],
                   [(r["model"], r["tp"], r["phase"], f"{r['sequential_s']:.3f}", f"{100 * r['summed_share']:.0f} %", f"{r['sequential_s'] / r['t3_s']:.3f}",
                     f"{r['sequential_s'] / r['t3_mca_s']:.3f}", f"{r['sequential_s'] / r['ideal_s']:.3f}") for r in b["end_to_end"]], 3)
    return lines


def alone(seen):
    return table(["bytes", "devices", "ring bound µs", "tile by tile", "over bound", "in steps", "over bound", "with NMC"],
                 [(f"{r['bytes'] / 1e6:.1f} MB", r["devices"], f"{r['bound_us']:.1f}", f"{r['tiles_us']:.1f}", f"{100 * (r['tiles_us'] / r['bound_us'] - 1):+.1f} %",
                   f"{r['steps_us']:.1f}", f"{100 * (r['steps_us'] / r['bound_us'] - 1):+.1f} %", f"{r['nmc_us']:.1f}") for r in seen["scatter_alone"]])


def other_chips(weft):
    rows = []
    for chip in ("t3-paper", "t3-paper-150", "t3-paper-2x-cus", "h200-like"):
        a = json.loads(run(weft, "sim", "t3", "--table", "--chip", chip, "--json"))["paper"]["all"]
        rows.append([chip] + [f"{a[c]['geomean']:.1f} / {a[c]['max']:.1f}" for c in ("ideal_overlap", "ideal_nmc", "t3", "t3_fifo", "t3_mca")]
                    + [f"−{a['traffic_cut']:.1f} %", f"{a['gemm_reads']:.2f} x"])
    return table(["chip", "ideal", "ideal, NMC", "T3", "T3, FIFO", "T3-MCA", "DRAM bytes", "GEMM reads fewer"], rows)


def measured(build, rows):
    """Sequential and fused, estimated and measured, with the rates calibrated just before."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = f"{folder}/cluster.json"
        run(f"{build}/weft", "info", "--calibrate", "--save", cluster)
        for link in LINKS:
            listing = pathlib.Path(folder) / "ops.txt"
            listing.write_text("".join(f"{op} --m {m} --n {n} --k {k}\n" for op in ("gemm-rs", "gemm-ar") for m, n, k in SHAPES), encoding="utf-8")
            environment = dict(os.environ, WEFT_CLUSTER=cluster, **({"WEFT_LINK": link} if link else {}))
            for line in run(f"{build}/weft", "run", "-n", "2", "--", f"{build}/bench/check_estimate", listing, env=environment).splitlines():
                seen = json.loads(line)
                fused = min((v for v in seen["variants"] if v["name"] not in ("compute", "sequential") and not v["name"].startswith("comm:")), key=lambda v: v["estimate_us"])
                sequential = next(v for v in seen["variants"] if v["name"] == "sequential")
                rows.append({"op": seen["op"], "link": link or "shm", "route": fused["name"], "sequential": sequential, "fused": fused})
    return rows


def cpu(options):
    kept = pathlib.Path(options.out) / "t3_cpu.json"
    if not kept.exists():
        return ["Not measured yet: `tools/page_t3.py --cpu` on a quiet machine.", ""]
    seen = json.loads(kept.read_text(encoding="utf-8"))
    errors, rows = [], []
    for r in seen["rows"]:
        cells = [r["op"], r["link"], r["route"]]
        for part in ("sequential", "fused"):
            v = r[part]
            errors.append(abs(v["estimate_us"] / v["measured_us"] - 1))
            cells += [f"{v['estimate_us']:.0f}", f"{v['measured_us']:.0f}", f"{100 * (v['estimate_us'] / v['measured_us'] - 1):+.1f} %"]
        rows.append(cells)
    within = sum(e <= 0.15 for e in errors)
    lines = [f"{within} of {len(errors)} predictions within 15 %, worst {100 * max(errors):.0f} %, mean {100 * sum(errors) / len(errors):.1f} % ({seen['date']}, {seen['machine']}, two ranks of one thread).", ""]
    return lines + table(["op", "link", "route", "sequential: predicted µs", "measured", "", "fused: predicted µs", "measured", ""], rows, 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="docs/results")
    parser.add_argument("--cpu", action="store_true", help="only measure this machine, for the last section")
    options = parser.parse_args()
    if options.cpu:
        seen = {"date": datetime.date.today().isoformat(), "machine": machine(), "rows": measured(options.build, [])}
        (pathlib.Path(options.out) / "t3_cpu.json").write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
        return 0
    weft = f"{options.build}/weft"
    seen = json.loads(run(weft, "sim", "t3", "--table", "--band", "--sensitivity", "--beyond", "--json", "--svg", options.out))
    run(weft, "sim", "sweep", "--svg", f"{options.out}/t3_sweep.svg")
    commit = run("git", "rev-parse", "--short", "HEAD").strip()
    lines = ["# Track-and-trigger hardware, simulated", "",
             f"Written by `tools/page_t3.py` ({datetime.date.today().isoformat()}, commit {commit}, chip `t3-paper`). [docs/simulator.md](../simulator.md) has the model, its assumptions and what decides each figure. "
             "Simulated, not measured, but for the last section. Speedups are over sequential: GEMM, ring reduce-scatter, ring all-gather.", "",
             "## Paper and ours", "", "Free parameters were frozen on Mega-GPT-2's eight cases; T-NLG's eight and everything on 32 devices are predictions. The paper's figures are over all 16.", ""]
    lines += paper(seen)
    lines += ["![speedups](t3_speedups.svg)", "", "![traffic by source](t3_traffic.svg)", "", "## The 16 cases", ""] + cases(seen, False)
    lines += ["## Predicted: models on 32 devices", ""] + cases(seen, True)
    lines += ["## Plain T3 is a band", "", "Geomean / max over the 16 cases in percent. The paper's 20 / 39 lies inside; what decides it is how often round robin alternates between the streams and what a switch costs.", ""] + band(seen)
    lines += ["![band](t3_band.svg)", "", "One FC-2 layer, traffic over time under T3 and T3-MCA:", "", "![T3 over time](t3_over_time.svg)", "", "![T3-MCA over time](t3_mca_over_time.svg)", ""]
    lines += ["## Reduce-scatter alone", ""] + alone(seen)
    lines += ["## Sensitivity", "", "Geomean over the 16 cases, change in points when one parameter is 20 % lower or higher.", ""] + sensitivity(seen)
    lines += ["## Other chips", "", "Geomean / max over the same 16 cases, percent. `t3-paper-150` reads the paper's links as 150 GB/s each way.", ""] + other_chips(weft)
    lines += ["## Beyond the paper", ""] + beyond(seen)
    lines += ["## Where it pays", "", "![sweep](t3_sweep.svg)", "", "## Cross-check against a real machine", "",
              "The same plans on this CPU, predicted by their estimate after `weft info --calibrate`, and measured.", ""] + cpu(options)
    (pathlib.Path(options.out) / "t3.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
