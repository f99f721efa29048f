#!/usr/bin/env python3
"""Runs the ledger and writes docs/results/ledger.md, ledger.json and ledger.svg, and the table in README.md.

One command makes every figure of the page and of the README's first two screens again: the model's ledger as users see it,
on three links; then one block of a large model on links from shared memory down to 50 Mbit/s, then every workload. About
five minutes on two cores; the machine should be quiet. Ends without touching a file when a command fails.

usage: tools/page_ledger.py [--build build] [--rounds 9] [--readme README.md] [--out docs/results]
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import tempfile

from bench import machine, output_of

LINKS = ["shm", "10gbit,10us", "1gbit,10us", "250mbit,10us", "50mbit,10us"]
MODEL_LINKS = ["100mbit,10us", "250mbit,10us", "1gbit,10us"]
BLOCK = "t-nlg"
WORKLOADS = ["mega-gpt-2", "llama-2-70b", "mixtral-8x7b", "deepseek-v3-moe", "dlrm-v2"]
STYLES = ["sequential", "decomposed", "fused", "compute"]


def ledger(weft, *words):
    return json.loads(subprocess.run([weft, "ledger", "--json", *words], capture_output=True, text=True, check=True).stdout)


def ms(us):
    return f"{us / 1000:.1f}"


def row_of(seen):
    us = {row["name"]: row["measured_us"] for row in seen["rows"]}
    best = min(us["sequential"], us["decomposed"])
    ratio = best / us["fused"]
    verdict = "the same" if abs(ratio - 1) <= seen["aa_band"] else f"{ratio:.2f} x" if ratio > 1 else f"{ratio:.2f} x: slower"
    return (f"| {seen['workload']} | {seen['link']} | {seen['compute_to_comm']:.2g} : 1 | "
            + " | ".join(ms(us[style]) for style in STYLES) + f" | {verdict} | {100 * seen['aa_band']:.1f} % |")


HEAD = ("| workload | link | compute : comm | sequential | in panels | fused | compute alone | best of the others / fused "
        "| noise |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n")


def predicted(seen):
    rows = []
    for row in seen["rows"]:
        if row["measured_us"] is None:  # simulated: there is nothing to compare with
            continue
        off = row["predicted_us"] / row["measured_us"] - 1
        rows.append(f"| {row['name']} | {ms(row['measured_us'])} | {ms(row['predicted_us'])} | {100 * off:+.0f} % |")
    return "\n".join(rows)


def model_row(seen):
    rows = {row["name"]: row for row in seen["rows"]}
    worst = rows["dropped_int8"]["loss"]
    return (f"| {seen['link']} | " + " | ".join(ms(rows[name]["measured_us"]) for name in MODEL_ROWS)
            + f" | {rows['sequential']['measured_us'] / rows['dropped_int8']['measured_us']:.2f} x | {100 * worst:+.2f} % |")


MODEL_ROWS = ["sequential", "decomposed", "fused", "fused_int8", "dropped", "dropped_int8", "compute"]
MODEL_HEAD = ("| link | sequential | in panels | fused | + int8 | + dropped | + dropped + int8 | compute alone | all together "
              "| perplexity |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")


def page(runs, text, stamp):
    by_link, by_workload, default = runs["links"], runs["workloads"], runs["default"]
    return f"""# The ledger, measured

{stamp}. Written by `tools/page_ledger.py`; all figures are in [ledger.json](ledger.json). Times in ms, medians of {default['rounds']} rounds in
which all styles take turns. {default['ranks']} ranks on {default['cores']} cores take turns, in the floor as everywhere.

## A model, as `weft ledger` prints it

```
{runs["model_text"].strip()}
```

Measured and predicted, ms:

| row | measured | predicted | off |
|---|---:|---:|---:|
{predicted(runs["model"])}

The same prompt on other links, ms until the first token (`weft ledger --link LINK`):

{MODEL_HEAD}{chr(10).join(model_row(seen) for seen in runs["model_links"])}

## One block of a large model, as `weft ledger --workload {BLOCK}` prints it

```
{text.strip()}
```

![before and after](ledger.svg)

Measured and predicted, ms:

| row | measured | predicted | off |
|---|---:|---:|---:|
{predicted(default)}

## The same block on other links

`weft ledger --workload {BLOCK} --link LINK`. compute : comm is that of the sub-layers that communicate: their products to their collectives alone.

{HEAD}{chr(10).join(row_of(seen) for seen in by_link)}

## Every workload on the default link

`weft ledger --workload NAME`. Sizes are each workload's stated scale-down (workloads/NAME.json).

{HEAD}{chr(10).join(row_of(seen) for seen in by_workload)}
"""


def screen_one(text, stamp):
    body = text.strip().split("What to try next")[0].rstrip()
    return f"""`make run` prints this (`build/weft ledger`; {stamp}):

```
{body}
```

One block of a large model (`weft ledger --workload {BLOCK}`), sequential above, fused below:

![sequential above, fused below](docs/results/ledger.svg)
"""


def screen_two(runs):
    return f"""{HEAD}{chr(10).join(row_of(seen) for seen in runs["links"] + runs["workloads"][1:])}
"""


def between(text, name, body):
    begin, end = f"<!-- {name}: written by tools/page_ledger.py -->\n", f"<!-- end of {name} -->"
    at, until = text.index(begin) + len(begin), text.index(end)
    return text[:at] + body + text[until:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", default="9")
    parser.add_argument("--readme", default="README.md")
    parser.add_argument("--out", default="docs/results")
    args = parser.parse_args()
    weft, out = f"{args.build}/weft", pathlib.Path(args.out)
    rounds = ["--rounds", args.rounds]
    commit = output_of("git", "rev-parse", "--short", "HEAD").strip()
    stamp = f"{datetime.date.today()}, commit {commit}, {machine()}"
    svg = out / "ledger.svg"
    with tempfile.NamedTemporaryFile(suffix=".json") as saved:
        model_text = output_of(weft, "ledger", "--save", saved.name)
        model = json.load(saved)
    with tempfile.NamedTemporaryFile(suffix=".json") as saved:
        text = output_of(weft, "ledger", "--workload", BLOCK, *rounds, "--svg", str(svg), "--save", saved.name)
        default = json.load(saved)
    block = ["--workload", BLOCK]
    runs = {"stamp": stamp, "default": default, "model": model, "model_text": model_text,
            "model_links": [model if link == model["link"] else ledger(weft, "--link", link) for link in MODEL_LINKS],
            "links": [default if link == default["link"] else ledger(weft, *block, *rounds, "--link", link) for link in LINKS],
            "workloads": [default] + [ledger(weft, *rounds, "--workload", name) for name in WORKLOADS]}
    (out / "ledger.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    (out / "ledger.md").write_text(page(runs, text, stamp), encoding="utf-8")
    readme = pathlib.Path(args.readme)
    filled = between(readme.read_text(encoding="utf-8"), "ledger", screen_one(model_text, stamp))
    readme.write_text(between(filled, "when it does not help", screen_two(runs)), encoding="utf-8")


if __name__ == "__main__":
    main()
