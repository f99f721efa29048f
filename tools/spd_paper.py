#!/usr/bin/env python3
"""Repeats the evaluation of sync-point drop on LLaMA-2 (Kim et al., ICML 2025) for someone who has the weights and the data sets.

    tools/paper_tasks.py --arc-easy ... > tasks.jsonl
    tools/spd_paper.py --model Llama-2-7b-hf --calibration redpajama.txt --text wiki.test.raw --tasks tasks.jsonl --tp 4 8 --out paper-7b

As in the paper: sensitivity on 128 windows of 2048 tokens of the calibration text; perplexity on WikiText-2's test text in windows of 2048 that do not overlap; accuracy as the mean
of ARC, HellaSwag, LAMBADA, PIQA, SciQ and WinoGrande, zero-shot; shares of blocks dropped in order of sensitivity, zero-shot (ZS), with block-to-block distillation (B2B) and with
head grouping before it (HG). The learning rate of LLaMA-2 is 5e-5, of OPT 1e-6. Every point is kept under --out as soon as it is measured, and the same command goes on; the
table is in OUT/paper.md. The figures to compare with: all blocks dropped, distillation recovers 20 points of accuracy (7B, 4 ranks) and 28 (13B, 8 ranks), head grouping 2 and 3 more.

It takes long on CPUs: a 7B model is about 14 GFLOP a token, WikiText-2 has 341,000 tokens, and there are as many evaluations as shares times ways times degrees. --limit makes a first look.
"""

import argparse
import pathlib

import page_spd
from page_spd import Points, mean_loss


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--calibration", required=True, help="text that blocks are measured and distilled on")
    parser.add_argument("--text", required=True, help="text for perplexity")
    parser.add_argument("--tasks", required=True, help="items, as tools/paper_tasks.py writes them")
    parser.add_argument("--tp", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--shares", type=float, nargs="+", default=[0, 0.25, 0.5, 0.625, 0.75, 0.875, 1])
    parser.add_argument("--rate", default="5e-5", help="learning rate of distillation (5e-5)")
    parser.add_argument("--ways", nargs="+", default=list(page_spd.WAYS), choices=list(page_spd.WAYS))
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--limit", type=int, default=0, help="windows, and items of each task, of every evaluation (all)")
    parser.add_argument("--build", default="build")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    args.quick, args.work, args.counts = False, args.out, ""
    return args


def main():
    args = arguments()
    for way in ("distilled", "head-grouped"):
        page_spd.WAYS[way] = [*page_spd.WAYS[way], "--lr", args.rate]
    points = Points(args)
    if args.limit:
        points.asked += ["--limit", str(args.limit)]
    lines = [f"# {args.model}", "", "| TP | dropped | way | perplexity | accuracy | relative loss of accuracy [95 %] |", "|---:|---:|---|---:|---:|---|"]
    for tp in args.tp:
        base = points.evaluate(tp, "zero-shot", 0)
        for share in args.shares:
            for way in args.ways if share else ["zero-shot"]:
                seen = points.evaluate(tp, way, round(share * points.blocks))
                loss, low, high = mean_loss(base, seen)
                lines.append(f"| {tp} | {share:.1%} | {way} | {seen['perplexity']:.3f} | {seen['accuracy']:.2%} | {loss:+.2%} [{low:+.2%}, {high:+.2%}] |")
                (pathlib.Path(args.out) / "paper.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
                print(lines[-1], flush=True)


if __name__ == "__main__":
    main()
