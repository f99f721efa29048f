#!/usr/bin/env python3
"""Sync-point drop on models/weft-16: accuracy and perplexity over the share of blocks dropped, and writes docs/results/spd.md, spd.json and SVGs.

Three ways at each tensor-parallel degree: zero-shot (weights untouched), distilled, head-grouped and distilled. The blocks are dropped in order of their sensitivity on
the calibration text; every point is one spd file and one `weft eval` on text and tasks that were neither searched nor distilled on. A point is kept in WORK as soon as it
is measured, with the spd files beside it: a run that is cut off loses one point at most, and the same command goes on.

usage: tools/page_spd.py [--build build] [--out docs/results] [--work build/spd] [--model models/weft-16] [--only SECTION ...] [--missing] [--quick] [--list] [--write]
                         [--counts 0,2,4,...] [--threads T] [--transport shm|threads] [--kept]
"""

import json
import math
import pathlib
import subprocess

from page import Page, row
from page_chart import COLOURS, apart, text

WAYS = {"zero-shot": None, "distilled": ["--head-groups", "none"], "head-grouped": ["--head-groups", "auto"]}  # further words of `weft spd distill`
TPS = (4, 8)
LINKS = ("100mbit,10us", "1gbit,10us", "10gbit,10us")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 70, 140, 70, 50


class Points:
    """The weft program, and points that are measured once."""

    cluster = None  # nothing here is priced

    def __init__(self, options):
        self.weft, self.quick, self.out = str(pathlib.Path(options.build) / "weft"), options.quick, pathlib.Path(options.out)
        self.model, self.work = pathlib.Path(options.model), pathlib.Path(options.work)
        self.blocks = json.loads((self.model / "config.json").read_text(encoding="utf-8"))["num_hidden_layers"]
        self.counts = [int(n) for n in options.counts.split(",")] if options.counts else list(range(0, self.blocks + 1, 8 if self.quick else 1))
        self.common = ["--threads", str(options.threads)] if options.threads else []
        self.transport = ["--transport", options.transport]
        self.calibration = getattr(options, "calibration", None) or str(self.model / "calibration.txt")
        self.samples = getattr(options, "samples", None) or (4 if self.quick else 64)
        self.kept_only = options.kept
        self.asked = []  # text and tasks of `weft eval`; the model folder's own where empty
        for flag in ("text", "tasks"):
            if getattr(options, flag, None):
                self.asked += [f"--{flag}", getattr(options, flag)]

    def where(self):
        """What WORK/where.txt says of points that were measured elsewhere."""
        path = self.work / "where.txt"
        return [path.read_text(encoding="utf-8").strip(), ""] if path.exists() else []

    def call(self, words):
        done = subprocess.run([self.weft, *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.weft} {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def kept(self, path, words):
        """What the command printed, from WORK where it is there."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            seen = {**json.loads(self.call([*words, *self.common, "--json"])), "command": "weft " + " ".join(words)}
            aside = path.with_suffix(".part")
            aside.write_text(json.dumps(seen) + "\n", encoding="utf-8")
            aside.rename(path)
        return json.loads(path.read_text(encoding="utf-8"))

    def sensitivity(self, tp):
        folder = self.work / f"tp{tp}"
        return self.kept(folder / "analyze.json", ["spd", "analyze", "--model", str(self.model), "--tp", str(tp), "--text", self.calibration,
                                                   "--samples", str(self.samples), "--no-curve", "--drop", "all", "--out", str(folder / "zero-shot.spd")])

    def repaired(self, tp, way):
        """The spd file of a way with all blocks dropped; made by `weft spd distill`, which goes on where it was cut off, where the way asks for it."""
        self.sensitivity(tp)
        zero_shot = self.work / f"tp{tp}" / "zero-shot.spd"
        if WAYS[way] is None:
            return zero_shot
        made = self.work / f"tp{tp}" / way / "repaired.spd"
        if not made.exists():
            self.call(["spd", "distill", "--model", str(self.model), "--spd", str(zero_shot), "--text", self.calibration, *WAYS[way], "--out", str(made.parent), *self.common])
        return made

    def evaluate(self, tp, way, count):
        """`count` blocks dropped, the least sensitive first, against none."""
        folder = self.work / f"tp{tp}"
        words = ["eval", "--model", str(self.model), "--ranks", str(tp), *self.asked, *self.transport] + (["--limit", "40"] if self.quick else [])
        if count == 0:
            return self.kept(folder / "none.json", [*words, "--save", str(folder / "none.found.json")])
        if (folder / f"{way}-{count}.json").exists():
            return json.loads((folder / f"{way}-{count}.json").read_text(encoding="utf-8"))
        if self.kept_only:
            return None
        self.evaluate(tp, way, 0)
        spd = json.loads(self.repaired(tp, way).read_text(encoding="utf-8"))
        first = set(self.sensitivity(tp)["order"][:count])
        spd["blocks"] = ["drop" if block in first else "sync" for block in range(self.blocks)]
        path = self.repaired(tp, way).parent / f"{way}-{count}.spd"  # its weights are named from there
        path.write_text(json.dumps(spd) + "\n", encoding="utf-8")
        return self.kept(folder / f"{way}-{count}.json", [*words, "--spd", str(path), "--against", str(folder / "none.found.json")])


def mean_loss(base, seen):
    """Relative loss of the tasks' mean accuracy against nothing dropped, with its paired interval of 95 %."""
    if "against" not in seen:
        return 0.0, 0.0, 0.0
    tasks = seen["against"]["tasks"]
    mean = sum(t["difference"] for t in tasks) / len(tasks)
    half = math.sqrt(sum(((t["high"] - t["low"]) / 2) ** 2 for t in tasks)) / len(tasks)
    return tuple(-x / base["accuracy"] for x in (mean, mean + half, mean - half))


def perplexity_loss(seen):
    against = seen.get("against")
    return (against["loss"], against["loss_low"], against["loss_high"]) if against else (0.0, 0.0, 0.0)


def curves_chart(title, subtitle, y_label, series, limit):
    """`series`: name -> [(share, value, low, high)], all shares."""
    values = [v for points in series.values() for p in points for v in p[1:]] + [limit]
    low, high = min(0, *values), max(values)
    high += 0.08 * (high - low)

    def at(x, y):
        return LEFT + (WIDTH - LEFT - RIGHT) * x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', text(LEFT, 26, title, 16), text(LEFT, 46, subtitle, 11, colour="#555555")]
    step = 10 ** math.floor(math.log10(high - low)) / 5
    while (high - low) / step > 8:
        step *= 2
    for i in range(math.ceil(low / step), math.floor(high / step) + 1):
        (x0, y), (x1, _) = at(0, i * step), at(1, i * step)
        parts += [f'<line x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>', text(x0 - 8, y + 4, f"{100 * i * step:.3g} %", 11, "end")]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts.append(text(at(share, low)[0], HEIGHT - BOTTOM + 18, f"{share:.0%}", 11, "middle"))
    (x0, y), (x1, _) = at(0, limit), at(1, limit)
    parts += [f'<line x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}" stroke="#888888" stroke-dasharray="5 4"/>',
              text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "blocks dropped, least sensitive first", 12, "middle"), text(LEFT - 40, TOP - 8, y_label)]
    heights = apart({name: at(1, points[-1][1])[1] for name, points in series.items()})
    for colour, (name, points) in zip(COLOURS, series.items()):
        band = [at(p[0], p[2]) for p in points] + [at(p[0], p[3]) for p in reversed(points)]
        parts += [f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in band)}" fill="{colour}" opacity="0.15"/>',
                  f'<polyline points="{" ".join("{:.1f},{:.1f}".format(*at(p[0], p[1])) for p in points)}" fill="none" stroke="{colour}" stroke-width="2"/>']
        parts += ['<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>'.format(*at(p[0], p[1]), colour) for p in points]
        parts.append(text(WIDTH - RIGHT + 10, heights[name] + 4, name, 12, colour=colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def curves(tp, runner):
    losses, perplexities, all_seen = {}, {}, {}
    for way in WAYS:
        for count in runner.counts:
            seen = runner.evaluate(tp, way, count)
            if seen is None:
                continue
            all_seen[way, count] = seen
            share, base = count / runner.blocks, all_seen[way, 0] if (way, 0) in all_seen else runner.evaluate(tp, way, 0)
            losses.setdefault(way, []).append((share, *mean_loss(base, seen)))
            perplexities.setdefault(way, []).append((share, *perplexity_loss(seen)))
    lines = ["| dropped | " + " | ".join(f"{way}: perplexity | accuracy | loss of accuracy [95 %]" for way in WAYS) + " |", "|---:|" + "---:|---:|---|" * len(WAYS)]
    for count in runner.counts:
        cells = []
        for way in WAYS:
            if (way, count) not in all_seen:
                cells.append("– | – | –")
                continue
            seen = all_seen[way, count]
            _, loss, low, high = next(p for p in losses[way] if p[0] == count / runner.blocks)
            cells.append(f"{seen['perplexity']:.3f} | {seen['accuracy']:.2%} | {loss:+.2%} [{low:+.2%}, {high:+.2%}]")
        lines.append(f"| {count} of {runner.blocks} | " + " | ".join(cells) + " |")
    rows, within = [], ["", "| | share dropped with under 1 % relative loss of accuracy | with the whole interval under 1 % |", "|---|---:|---:|"]
    for way in WAYS:
        fits = [p[0] for p in losses[way] if p[1] < 0.01]
        sure = [p[0] for p in losses[way] if p[3] < 0.01]
        within.append(f"| {way} | {max(fits, default=0):.0%} | {max(sure, default=0):.0%} |")
    whole = runner.blocks
    if whole in runner.counts:
        plain, base = losses["zero-shot"][-1][1], {"command": all_seen["distilled", whole]["command"]}
        for way in ("distilled", "head-grouped"):
            recovered = 1 - losses[way][-1][1] / plain
            rows.append(row(f"TP {tp}, all blocks dropped: share of the lost accuracy that {way} recovers", 0.5, ">=", recovered, base,
                            f"perplexity {all_seen[way, whole]['perplexity']:.2f}, zero-shot {all_seen['zero-shot', whole]['perplexity']:.2f}, none dropped {all_seen[way, 0]['perplexity']:.2f}"))
    svgs = []
    for name, title, series, limit in (("accuracy", "Relative loss of mean accuracy", losses, 0.01), ("perplexity", "Relative growth of perplexity", perplexities, 0.01)):
        svg = f"spd_tp{tp}_{name}.svg"
        (runner.out / svg).write_text(curves_chart(f"{title}, {tp} ranks", "weft-16, held-out text and tasks; bands: paired intervals of 95 %; dashed: 1 %", "loss", series, limit), encoding="utf-8")
        svgs.append({"op": f"{title}, {tp} ranks", "svg": svg, "command": all_seen["zero-shot", runner.counts[-1]]["command"]})
    return rows, svgs, [*runner.where(), *lines, *within, ""]


def sensitivity(runner):
    lines = ["| block | " + " | ".join(f"S, TP {tp} | class" for tp in TPS) + " |", "|---:|" + "---:|---|" * len(TPS)]
    seen = [runner.sensitivity(tp) for tp in TPS]
    for block in range(runner.blocks):
        lines.append(f"| {block} | " + " | ".join(f"{s['blocks'][block]['sensitivity']:.4f} | {s['blocks'][block]['class']}" for s in seen) + " |")
    return [], [], [*runner.where(), *lines, "", "Commands: " + "; ".join(f"`{s['command']}`" for s in seen), ""]


def ablation(runner):
    rows, lines = [], ["| model | order | perplexity | against synchronised |", "|---|---|---:|---:|"]
    for tp in TPS:
        seen = runner.kept(runner.work / f"ablate{tp}.json", ["spd", "ablate", "--model", str(runner.model), "--text", str(runner.model / "heldout.txt"), "--tp", str(tp),
                                                              "--samples", "2" if runner.quick else "8"])
        by = {(kind, r["order"]): r for kind in ("partial_sums", "biases") for r in seen[kind]}
        for (kind, order), r in by.items():
            lines.append(f"| TP {tp}, {'partial sums' if kind == 'partial_sums' else 'biases of ' + seen['biases_of']} | {order} | {r['perplexity']:.3f} | {r['loss']:+.2%} |")
        rows.append(row(f"TP {tp}, block 0: perplexity with Y_i after the all-reduce / before it", 1, ">=",
                        by["partial_sums", "partial_after"]["perplexity"] / by["partial_sums", "dropped"]["perplexity"], seen, "the paper's LLaMA2-7B: 177.69 / 10.65"))
        rows.append(row(f"TP {tp}, block 0: perplexity with the bias before the all-reduce / after it", 1, ">=",
                        by["biases", "bias_before"]["perplexity"] / by["biases", "dropped"]["perplexity"], seen, "the paper's OPT-6.7B: 332.60 / 13.07"))
    return rows, [], [*lines, ""]


NAMES = {"sequential": "plain", "decomposed": "in panels", "fused": "fused", "fused_int8": "fused + int8", "dropped": "fused + dropped", "dropped_int8": "fused + dropped + int8"}


def pareto_chart(link, points, floor):
    """`points`: name -> (loss, milliseconds). Those that no other beats in both are joined."""
    most = 1.1 * max(ms for _, ms in points.values())
    widest = max(0.01, *(loss for loss, _ in points.values())) * 1.15

    def at(loss, ms):
        return LEFT + (WIDTH - LEFT - RIGHT) * max(loss, 0) / widest, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ms / most

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             text(LEFT, 26, f"Time to first token against loss, 4 ranks, {link}", 16), text(LEFT, 46, "weft-16, 512 tokens; grey: compute alone; the line joins what nothing else beats in both", 11, colour="#555555")]
    for i in range(6):
        (x0, y), (x1, _) = at(0, most * i / 5), at(widest, most * i / 5)
        parts += [f'<line x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>', text(x0 - 8, y + 4, f"{most * i / 5:.0f} ms", 11, "end"),
                  text(at(widest * i / 5, 0)[0], HEIGHT - BOTTOM + 18, f"{widest * i / 5:.2%}", 11, "middle")]
    (x0, y), (x1, _) = at(0, floor), at(widest, floor)
    parts += [f'<line x1="{x0:.1f}" y1="{y:.1f}" x2="{x1:.1f}" y2="{y:.1f}" stroke="#888888" stroke-dasharray="5 4"/>', text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "growth of perplexity", 12, "middle")]
    best = sorted((max(loss, 0), ms) for loss, ms in points.values() if not any(l < loss and m < ms for l, m in points.values()))
    parts.append(f'<polyline points="{" ".join("{:.1f},{:.1f}".format(*at(*p)) for p in best)}" fill="none" stroke="#bbbbbb" stroke-width="2"/>')
    heights = apart({name: at(*p)[1] for name, p in points.items()})
    for colour, (name, p) in zip(COLOURS * 2, points.items()):
        parts += ['<circle cx="{:.1f}" cy="{:.1f}" r="5" fill="{}"/>'.format(*at(*p), colour), text(at(*p)[0] + 9, heights[name] + 4, f"{name}, {p[1]:.0f} ms", 11, colour=colour)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def pareto(runner):
    rows, svgs, lines = [], [], ["| link | " + " | ".join(NAMES.values()) + " | compute alone |", "|---|" + "---:|" * (len(NAMES) + 1)]
    for link in LINKS:
        words = ["ledger", "--model", str(runner.model), "--link", link]
        seen = {**json.loads(runner.call([*words, "--json"])), "command": "weft " + " ".join(words)}
        by = {r["name"]: r for r in seen["rows"]}
        loss = {name: (by[name]["loss"] or 0.0) for name in NAMES}
        points = {NAMES[name]: (loss[name], by[name]["measured_us"] * 1e-3) for name in NAMES}
        floor = by["compute"]["measured_us"] * 1e-3
        lines.append(f"| {link} | " + " | ".join(f"{ms:.0f} ms, {value:+.2%}" for value, ms in points.values()) + f" | {floor:.0f} ms |")
        svg = f"spd_pareto_{link.split(',')[0]}.svg"
        (runner.out / svg).write_text(pareto_chart(link, points, floor), encoding="utf-8")
        svgs.append({"op": f"Time against loss, {link}", "svg": svg, "command": seen["command"]})
        best = min((by[name]["measured_us"], name) for name in ("dropped", "dropped_int8") if loss[name] < 0.01)
        rows.append(row(f"{link}: time saved by dropping and fusion together ({NAMES[best[1]]}, {loss[best[1]]:+.2%}) over plain", 0.2, ">=", 1 - best[0] / by["sequential"]["measured_us"], seen,
                        "" if link == LINKS[0] else "shown; the bar is for one bandwidth"))
    return rows, svgs, [*lines, ""]


def large(runner):
    words = ["spd", "predict", "--workload", "llama-2-70b", "--tp", "8"]
    return [], [], ["```", runner.call(words).strip(), "```", "", f"`weft {' '.join(words)}`", ""]


def decode(runner):
    words = ["generate", "--random", "tests/models/llama-1b.json", "--prompt-ids", "1,2,3", "--threads", "2", "--bandwidth", "--max-tokens", "24", "--ignore-eos"]
    seen = {**json.loads(runner.call([*words, "--json"])), "command": "weft " + " ".join(words)}
    rows = [row("1.1 B random Llama, bf16, one rank, two threads: weights read a second over what memory gives (median of 9 passes)", 0.85, ">=",
                seen["read_share"], seen, f"{seen['weight_gbytes_per_s']:.1f} of {seen['read_gbytes_per_s']:.1f} GB/s")]
    shares = []
    for _ in range(5):
        ms = {}
        for form in ("fused", "alone"):
            words = ["generate", "--model", str(runner.model), "--ranks", "2", "--threads", "1", "--prompt", "The kernel is", "--max-tokens", "200", "--ignore-eos", "--sync", form]
            ms[form] = json.loads(runner.call([*words, "--json"]))["ms_per_token"]
        shares.append(1 - ms["alone"] / ms["fused"])
    rows.append(row("weft-16, two ranks: synchronisation's share of a token (fused against none, median of 5 pairs)", 0.1, "<=", sorted(shares)[2],
                    {"command": "weft " + " ".join(words)}, f"last pair {ms['fused']:.3f} and {ms['alone']:.3f} ms a token; shares " + ", ".join(f"{s:.1%}" for s in shares)))
    return rows, [], []


SECTIONS = {"decode": decode, "pareto": pareto, "large": large, "sensitivity": sensitivity, "ablation": ablation, "curves-tp4": lambda runner: curves(4, runner), "curves-tp8": lambda runner: curves(8, runner)}


def head(report):
    return ["# Sync-point drop on weft-16, measured", "",
            f"{report['machine']}. Written by `tools/page_spd.py`; every number has its command, its section a date and commit. What the words mean: [../spd.md](../spd.md).", "",
            "Sensitivity is measured and blocks are distilled on models/weft-16/calibration.txt; perplexity and accuracy on heldout.txt (242 windows of 1024 tokens) and tasks.jsonl (as many "
            "last_word and continuation items as the command says). Accuracy is the mean of the two tasks. Losses are against nothing dropped on the same windows and items, intervals of 95 % are paired (bootstrap over windows; Bonett and Price)."]


def add_flags(parser):
    parser.add_argument("--model", default="models/weft-16")
    parser.add_argument("--work", default="build/spd", help="where points and spd files are kept")
    parser.add_argument("--counts", default="", metavar="LIST", help="numbers of blocks to drop (all)")
    parser.add_argument("--threads", type=int, default=0, help="threads of each rank")
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--kept", action="store_true", help="curves: only points that WORK has")


if __name__ == "__main__":
    Page("spd", __doc__, SECTIONS, head, Points, add_flags).main()
