#!/usr/bin/env python3
"""Sync-point drop on models/weft-16: writes the tables and the picture of docs/results/spd.md, and evaluates other models.

A point of the table `quality` is one spd file and one `weft eval` on text and tasks that were neither searched nor distilled on. It
is kept in WORK as soon as it is measured, with the spd files beside it: the same command goes on where it was cut off. It takes hours.

As the paper (Kim et al., ICML 2025) on LLaMA-2, for someone who has weights and data sets (tools/paper_tasks.py makes the tasks):

    tools/page_spd.py --only curves --model Llama-2-7b-hf --calibration redpajama.txt --text wiki.test.raw --tasks tasks.jsonl
                      --rate 5e-5 --samples 128 --work paper-7b

`curves` prints perplexity and accuracy over the share of blocks dropped: zero-shot, distilled, and with heads grouped before.

usage: tools/page_spd.py [--build build] [--only TABLE ...] [--work build/spd] [--model models/weft-16] [--quick]
"""

import json
import math
import pathlib

from page import Page, link_name

PAPER = ["--inputs", "sync"]  # as the paper trains blocks; the program's default repairs more
WAYS = {"zero-shot": None, "distilled": ["--head-groups", "none", *PAPER], "head-grouped": ["--head-groups", "auto", *PAPER]}
TPS = (4, 8)
SHARES = (0, 0.25, 0.5, 0.625, 0.75, 0.875, 1)
LINKS = ("100mbit,10us", "1gbit,10us", "10gbit,10us")
NAMES = {"sequential": "sequential", "fused": "fused", "fused_int8": "fused + int8", "dropped": "fused + dropped", "dropped_int8": "all together", "compute": "compute alone"}


class Points:
    """Points that are measured once and kept."""

    def __init__(self, weft):
        options = weft.options
        self.weft, self.model, self.work = weft, pathlib.Path(options.model), pathlib.Path(options.work)
        self.blocks = json.loads((self.model / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
        self.calibration = options.calibration or str(self.model / "calibration.txt")
        self.samples = 4 if weft.quick else options.samples
        self.asked = [word for flag in ("text", "tasks") if getattr(options, flag) for word in (f"--{flag}", getattr(options, flag))]
        self.short = ["--window", 64] if weft.quick else []
        self.rate = [*(["--lr", options.rate] if options.rate else []), *(["--samples", 4, "--epochs", 1] if weft.quick else []), *self.short]

    def kept(self, path, words):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            text = self.weft.call(["weft", *words, "--json"], timeout=None)
            aside = path.with_suffix(".part")
            aside.write_text(text, encoding="utf-8")
            aside.rename(path)
        return json.loads(path.read_text(encoding="utf-8"))

    def sensitivity(self, tp):
        folder = self.work / f"tp{tp}"
        return self.kept(folder / "analyze.json", ["spd", "analyze", "--model", self.model, "--tp", tp, "--text", self.calibration, "--samples", self.samples, *self.short,
                                                   "--no-curve", "--drop", "all", "--out", folder / "zero-shot.spd"])

    def repaired(self, tp, way):
        """The spd file of a way with all blocks dropped; `weft spd distill` goes on where it was cut off."""
        self.sensitivity(tp)
        zero_shot = self.work / f"tp{tp}" / "zero-shot.spd"
        if WAYS[way] is None:
            return zero_shot
        made = self.work / f"tp{tp}" / way / "repaired.spd"
        if not made.exists():
            self.weft.call(["weft", "spd", "distill", "--model", self.model, "--spd", zero_shot, "--text", self.calibration, *WAYS[way], *self.rate, "--out", made.parent], timeout=None)
        return made

    def evaluate(self, tp, way, count):
        """`count` blocks dropped, the least sensitive first, against none."""
        folder = self.work / f"tp{tp}"
        words = ["eval", "--model", self.model, "--ranks", tp, *self.asked, *(["--limit", 4] if self.weft.quick else []), *self.short]
        if count == 0:
            return self.kept(folder / "none.json", [*words, "--save", folder / "none.found.json"])
        self.evaluate(tp, way, 0)
        spd = json.loads(self.repaired(tp, way).read_text(encoding="utf-8"))
        first = set(self.sensitivity(tp)["order"][:count])
        spd["blocks"] = ["drop" if block in first else "sync" for block in range(self.blocks)]
        path = self.repaired(tp, way).parent / f"{way}-{count}.spd"  # its weights are named from there
        path.write_text(json.dumps(spd) + "\n", encoding="utf-8")
        return self.kept(folder / f"{way}-{count}.json", [*words, "--spd", path, "--against", folder / "none.found.json"])


def mean_loss(base, seen):
    """Relative loss of the tasks' mean accuracy against nothing dropped, with its paired interval of 95 %."""
    if "against" not in seen:
        return 0.0, 0.0, 0.0
    tasks = seen["against"]["tasks"]
    mean = sum(t["difference"] for t in tasks) / len(tasks)
    half = math.sqrt(sum(((t["high"] - t["low"]) / 2) ** 2 for t in tasks)) / len(tasks)
    return tuple(-x / base["accuracy"] for x in (mean, mean + half, mean - half))


def quality(weft):
    points, rows = Points(weft), []
    for tp in TPS:
        base = points.evaluate(tp, "zero-shot", 0)
        plain, repaired = (points.evaluate(tp, way, points.blocks) for way in ("zero-shot", "distilled"))
        lost, still = mean_loss(base, plain)[0], mean_loss(base, repaired)[0]
        rows.append([tp, *(f"{seen['perplexity']:.1f}" for seen in (base, plain, repaired)), f"{100 * (1 - still / lost):.0f} %" if lost else "–"])
    return ["ranks:", "perplexity, nothing dropped:", "all dropped:", "all dropped and repaired:", "lost accuracy won back:"], rows


def curves(weft):
    points = Points(weft)
    print("| TP | dropped | way | perplexity | accuracy | relative loss of accuracy [95 %] |\n|---:|---:|---|---:|---:|---|")
    for tp in TPS:
        base = points.evaluate(tp, "zero-shot", 0)
        for count in sorted({round(share * points.blocks) for share in SHARES}):
            for way in WAYS if count else ["zero-shot"]:
                seen = points.evaluate(tp, way, count)
                loss, low, high = mean_loss(base, seen)
                print(f"| {tp} | {count} of {points.blocks} | {way} | {seen['perplexity']:.3f} | {seen['accuracy']:.2%} | {loss:+.2%} [{low:+.2%}, {high:+.2%}] |", flush=True)


def pareto_picture(weft, link, points, floor):
    weft.draw(f"spd_pareto_{link.split(',')[0]}.svg", {
        "chart": "line", "title": f"Time to first token against loss, 4 ranks, {link_name(link)}", "subtitle": "weft-16, a prompt of 512 tokens",
        "x": {"label": "growth of perplexity", "unit": "percent"}, "y": {"label": "ms", "min": 0},
        "series": [{"name": name, "points": [[max(loss, 0), ms]], "labels": [f"{name}, {ms:.0f} ms"]} for name, (loss, ms) in points.items()],
        "bands": [{"low": floor, "high": floor, "label": "compute alone"}]})


def pareto(weft):
    rows, losses = [], {}
    for link in LINKS:
        seen = {r["name"]: r for r in weft.json(f"ledger --model {weft.options.model} --ranks 4 --link {link}")["rows"]}
        rows.append([link_name(link), *(f"{seen[name]['measured_us'] / 1e3:.0f} ms" for name in NAMES)])
        losses = {name: seen[name].get("loss") for name in NAMES}
        if link == LINKS[0]:
            points = {title: (seen[name].get("loss") or 0.0, seen[name]["measured_us"] / 1e3) for name, title in NAMES.items() if name != "compute"}
            pareto_picture(weft, link, points, seen["compute"]["measured_us"] / 1e3)
    rows.append(["perplexity", *("" if losses[name] is None else f"{100 * losses[name]:+.2f} %" for name in NAMES)])
    return ["link", *(f"{title}:" for title in NAMES.values())], rows


def add_flags(parser):
    parser.add_argument("--model", default="models/weft-16")
    parser.add_argument("--work", default="build/spd", help="where points and spd files are kept (build/spd)")
    parser.add_argument("--calibration", help="text that blocks are measured and distilled on (the model's)")
    parser.add_argument("--text", help="text for perplexity (the model's)")
    parser.add_argument("--tasks", help="items for accuracy (the model's)")
    parser.add_argument("--rate", help="learning rate of distillation")
    parser.add_argument("--samples", type=int, default=64, help="windows that sensitivity is measured on (64)")


if __name__ == "__main__":
    Page("spd", __doc__, {"pareto": pareto, "quality": quality, "curves": curves}, ["pareto"]).main(add_flags)
