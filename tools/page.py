"""What the pages of docs/results share: sections that are measured one by one, bars, tables, and the files they go to.

A page is a dictionary of sections. A section is a function that returns (rows, seen): bars, as row() makes them, and what
the commands printed. Each section is kept in NAME.json as soon as it is measured, with date, commit and machine, so that
a run that is cut off loses one section at most. A bar holds if the ratio meets its limit within the A/A band of that cell.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys

from bench import machine


def over(a, b):
    return None if a is None or not b else a / b


def number(value, form=".2f"):
    return "–" if value is None else format(value, form)


def row(what, limit, sense, value, seen, note=""):
    """One bar: `value` must be at most or at least `limit`, within the A/A band."""
    band = seen.get("aa_band") or 0
    met = None if value is None else (value <= limit * (1 + band) if sense == "<=" else value >= limit * (1 - band))
    return {"what": what, "target": f"{sense} {limit:.4g}", "measured": value, "band": band, "met": met, "note": note,
            "command": seen.get("command", ""), "predicted_us": seen.get("predicted_us"), "fused_us": seen.get("fused_us")}


def bars_table(rows):
    lines = ["| bar | to reach | measured | A/A band | predicted / measured | met | command |", "|---|---|---:|---:|---:|---|---|"]
    last = None
    for r in rows:
        command = "″" if r["command"] == last else f"`{r['command']}`"
        last = r["command"]
        met = {True: "yes", False: "**no**", None: "not measured"}[r["met"]]
        note = f" ({r['note']})" if r["note"] else ""
        lines.append(f"| {r['what']}{note} | {r['target']} | {number(r['measured'], '.3f')} | {number(r['band'], '.3f')} | "
                     f"{number(over(r['predicted_us'], r['fused_us']))} | {met} | {command} |")
    return lines


def shape_of(seen):
    return " ".join(f"{k} {v}" for k, v in seen["shape"].items() if not isinstance(v, (list, dict)))


def times_table(all_seen):
    lines = ["| op | shape | link | route | compute µs | comm µs | comm_cpu µs | sequential µs | decomposed µs | MPI µs | fused µs | predicted µs | speedup | hidden |",
             "|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    keys = ("compute_us", "comm_us", "comm_cpu_us", "sequential_us", "decomposed_us", "mpi_us", "fused_us", "predicted_us")
    for s in all_seen:
        if "fused_us" not in s or "sizes" in s:
            continue
        times = " | ".join(number(s.get(key), ",.1f") for key in keys)
        lines.append(f"| {s['op']} | {shape_of(s)} | {s['link']} | {s['route']} | {times} | {number(s['speedup'])} | {number(s['hidden'])} |")
    return lines if len(lines) > 2 else []


def sizes_tables(all_seen):
    lines = []
    for s in all_seen:
        if "sizes" not in s:
            continue
        lines += ["", f"`{s['command']}`", "", "```",
                  f"#{'size':>12} {'count':>12} {'type':>6} {'time':>10} {'algbw':>8} {'busbw':>8} {'#wrong':>6} {'MPI time':>10}",
                  f"#{'(B)':>12} {'(elements)':>12} {'':>6} {'(us)':>10} {'(GB/s)':>8} {'(GB/s)':>8} {'':>6} {'(us)':>10}"]
        lines += [f" {r['size_bytes']:>12} {r['count']:>12} {r['type']:>6} {r['time_us']:>10.1f} {r['algbw_gbps']:>8.3g} "
                  f"{r['busbw_gbps']:>8.3g} {r['wrong']:>6} {number(r['mpi_us'], '.1f'):>10}" for r in s["sizes"]]
        lines += ["```"]
    return lines


def pictures(all_seen):
    return [f"\n![{s['op']}]({s['svg']})\n\n`{s['command']}`" for s in all_seen if "svg" in s]


def section_lines(name, section):
    where = f", {section['machine']}" if "machine" in section else ""
    lines = [f"## {name}", "", f"{section['date']}, commit {section['commit']}{where}{', calibrated' if section.get('calibrated') else ''}"
             f"{', quick' if section['quick'] else ''}.", ""]
    if section["rows"]:
        lines += bars_table(section["rows"]) + [""]
    return lines + section.get("lines", []) + times_table(section["seen"]) + sizes_tables(section["seen"]) + pictures(section["seen"]) + [""]


def measured_commit():
    """The commit of what is measured: pages and the tools that write them are not part of it."""
    def said(*words):
        return subprocess.run(["git", *words], capture_output=True, text=True, check=False).stdout.strip()
    changed = said("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!tools")
    return said("describe", "--always") + ("-dirty" if changed else "")


class Page:
    """`name` names the files; `sections` are functions of a runner, which `make_runner` makes of the options."""

    def __init__(self, name, doc, sections, head, make_runner, add_flags=lambda parser: None):
        self.name, self.doc, self.sections, self.head = name, doc, sections, head
        self.make_runner, self.add_flags = make_runner, add_flags

    def text(self, report):
        rows = [r for s in report["sections"].values() for r in s["rows"]]
        lines = [*self.head(report), "", f"**{sum(r['met'] is True for r in rows)} of {len(rows)} bars met.**", ""]
        for name in self.sections:
            if name in report["sections"]:
                lines += section_lines(name, report["sections"][name])
        return "\n".join(lines) + "\n"

    def options(self):
        parser = argparse.ArgumentParser(description=self.doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", default="build")
        parser.add_argument("--out", default="docs/results")
        parser.add_argument("--only", nargs="+", default=[], metavar="SECTION", choices=list(self.sections))
        parser.add_argument("--missing", action="store_true", help=f"only sections that {self.name}.json has not")
        parser.add_argument("--quick", action="store_true", help="few rounds: to try the page, not to quote")
        parser.add_argument("--list", action="store_true", help="name the sections")
        parser.add_argument("--write", action="store_true", help=f"write {self.name}.md again from {self.name}.json; measure nothing")
        self.add_flags(parser)
        return parser.parse_args()

    def measure(self, runner, report, save, names):
        """The names of sections that failed."""
        failed = []
        for name in names:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            commit = measured_commit()
            try:
                rows, seen, *lines = self.sections[name](runner)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed.append(name)
                print(error, file=sys.stderr)
                continue
            report["sections"][name] = {"date": datetime.date.today().isoformat(), "commit": commit, "machine": machine(),
                                        "quick": runner.quick, "calibrated": bool(runner.cluster), "rows": rows, "seen": seen,
                                        **({"lines": lines[0]} if lines else {})}
            save()
        return failed

    def main(self):
        options = self.options()
        if options.list:
            print("\n".join(self.sections))
            return
        out = pathlib.Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        path = out / f"{self.name}.json"
        report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"sections": {}}
        report["machine"] = machine()

        def save():
            path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
            (out / f"{self.name}.md").write_text(self.text(report), encoding="utf-8")

        if options.write:
            save()
            return
        names = [name for name in options.only or self.sections if not (options.missing and name in report["sections"])]
        failed = self.measure(self.make_runner(options), report, save, names)
        if failed:
            sys.exit(f"not measured: {', '.join(failed)}; run again with --only {' '.join(failed)}")
