"""One writer for the pages of docs/results: runs commands, and puts their figures into the marked tables of a page.

A page is written by hand but for its tables, which stand between `<!-- table NAME -->` and `<!-- end -->`. A table is a
function of a runner that returns (columns, rows): a column that ends in ":" is a number's. Below it goes a line with machine,
instruction set, date, commit and the first of its commands. What the commands printed is kept in build/results/PAGE-TABLE.json.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = ROOT / "docs/results"
MOST_HIDDEN = 1.05  # above it a part of the ideal was measured too long


def ratio(a, b, form=".2f"):
    return "–" if a is None or not b else format(a / b, form)


def slashed(values, form=".2f"):
    return " / ".join("–" if v is None else format(v, form) for v in values)


def spread(values, form=".2f"):
    known = [v for v in values if v is not None]
    return f"{min(known):{form}} to {max(known):{form}}" if known else "–"


def hidden(seen):
    """The figure, or the first words of why there is none."""
    return f"{seen['hidden']:.2f}" if seen["hidden"] is not None else (seen["hidden_note"] or "–").split(":")[0]


def link_name(link):
    found = re.match(r"([\d.]+)(g|m)bit", link)
    return f"{found[1]} {found[2].upper()}bit/s" if found else "shared memory" if link == "shm" else link


def machine():
    model = platform.machine()
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
        model = found[1] if found else model
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def commit():
    """Of what is measured: pages and the tools that write them are not part of it."""
    def said(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    changed = said("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!tools", ":!README.md")
    return said("describe", "--always") + ("-dirty" if changed else "")


def json_of(text):
    """The JSON object among lines that mpirun may have added to."""
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    if line is None:
        raise RuntimeError(f"no JSON in: {text[-500:]}")
    return json.loads(line)


class Weft:
    """The weft program and those of bench/; remembers what each command printed."""

    def __init__(self, options):
        self.build, self.quick, self.options = pathlib.Path(options.build).resolve(), options.quick, options
        self.log, self.made = [], ""
        self.mpirun = shutil.which("mpirun") if (self.build / "weft_mpi.so").exists() else None
        self.env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def call(self, words, shown=None, timeout=1800, text=None):
        """What the command prints. `weft` and `bench/X` are those of the build."""
        shown = shown or " ".join(map(str, words)).replace(str(self.build) + "/", "")
        words = [str(self.build / w) if w == "weft" or str(w).startswith("bench/") else str(w) for w in words]
        print(f"  {shown[:200]}", file=sys.stderr, flush=True)
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=self.env, timeout=timeout, input=text)
        if done.returncode != 0:
            raise RuntimeError(f"failed ({done.returncode}): {shown}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
        self.log.append({"command": shown.removesuffix(" --json"), "printed": done.stdout})
        return done.stdout

    def json(self, words):
        return json_of(self.call(["weft", *words.split(), "--json"]))

    def calibrate(self):
        """The rates of this machine, or of the instruction set that it is held to, measured once for all pages: what predictions are made from."""
        isa = self.env.get("WEFT_ISA")
        path = self.build / (f"calibrated-{isa}.json" if isa else "calibrated.json")
        if not path.exists():
            self.call(["weft", "info", "--calibrate", "--save", path])
        self.env["WEFT_CLUSTER"] = str(path)

    def bench(self, words, rounds=31, mpi=True):
        """On two ranks of one thread, under mpirun where there is one."""
        words = f"bench {words} --threads 1 --rounds {min(rounds, 5) if self.quick else rounds}"
        if mpi and self.mpirun:
            whole = [self.mpirun, "--bind-to", "none", "--oversubscribe", "-n", "2", "weft", *words.split(), "--json"]
            return json_of(self.call(whole, f"mpirun -n 2 weft {words}"))
        return self.json(f"{words} --ranks 2")

    def program(self, name, words="", prefix=()):
        """A program of bench/, built first where this machine has what it needs; None where it has not."""
        subprocess.run(["cmake", "--build", self.build, "--target", name], check=False, capture_output=True)
        if not (self.build / "bench" / name).exists():
            return None
        return self.call([*prefix, f"bench/{name}", *words.split()]) if words is not None else str(self.build / "bench" / name)

    def draw(self, name, chart):
        self.call(["weft", "draw", "-", "--svg", RESULTS / name], text=json.dumps(chart))

    @contextlib.contextmanager
    def hosts(self, words):
        """Virtual hosts for as long as the block lasts (root); `words` as for `weft cluster up`."""
        name = ["--name", "page"]
        down = [str(self.build / "weft"), "cluster", "down", *name]
        subprocess.run(down, capture_output=True, check=False)
        made = json_of(self.call(["weft", "cluster", "up", *name, *words.split(), "--json"]))
        self.made = f"weft cluster up {words}"
        try:
            yield made
        finally:
            subprocess.run(down, capture_output=True, check=False)

    def on_hosts(self, ranks, program, mca=()):
        """What the ranks of a program on the hosts print."""
        shown = " ".join([f"{self.made}; weft cluster run -n {ranks}", *mca, "--", *program]).replace(str(self.build) + "/", "")
        return self.call(["weft", "cluster", "run", "--name", "page", "-n", ranks, *mca, "--", *program], shown)

    def bench_on(self, ranks, words, rounds, mca=()):
        words = f"bench {words} --rounds {min(rounds, 3) if self.quick else rounds} --json"
        return json_of(self.on_hosts(ranks, [str(self.build / "weft"), *words.split()], mca))

    def pair(self, server, client):
        """A server and a client, one on each of two hosts: what the client prints."""
        script = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then {server} >/dev/null; else sleep 0.5; {client}; fi'
        return self.on_hosts(2, ["/bin/sh", "-c", script])


def table_text(columns, rows):
    lines = ["| " + " | ".join(c.removesuffix(":") for c in columns) + " |", "|" + "|".join("---:" if c.endswith(":") else "---" for c in columns) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def between(text, begin, body, end="<!-- end -->"):
    """`text` with what stands between two marks replaced."""
    if begin not in text:
        raise RuntimeError(f"there is no {begin} in the page; put it and {end} around the table")
    at = text.index(begin) + len(begin)
    return text[:at] + "\n" + body.strip("\n") + "\n" + text[text.index(end, at):]


def provenance(runner, command):
    isa = json_of(subprocess.run([runner.build / "weft", "info", "--json"], capture_output=True, text=True, check=True).stdout)["isa"]
    quick = ", quick: not to quote" if runner.quick else ""
    return f"*{machine()}, {isa}; {datetime.date.today()}, commit {commit()}{quick}.*\n`{command}`"


class Page:
    """`tables`: name -> function of a runner that returns (columns, rows), or None where it only draws."""

    def __init__(self, name, doc, tables, default=None):
        self.name, self.doc, self.tables, self.default = name, doc, tables, default or list(tables)

    def main(self, add_flags=lambda parser: None):
        parser = argparse.ArgumentParser(description=self.doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", default="build")
        parser.add_argument("--only", nargs="+", default=self.default, metavar="TABLE", choices=list(self.tables), help=", ".join(self.tables))
        parser.add_argument("--quick", action="store_true", help="few rounds: to try the page, not to quote")
        add_flags(parser)
        options = parser.parse_args()
        runner, failed = Weft(options), []
        for name in options.only:
            print(f"{self.name}: {name} ...", file=sys.stderr, flush=True)
            runner.log = []
            try:
                self.write(runner, name, self.tables[name](runner))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed.append(name)
                print(error, file=sys.stderr)
        if failed:
            sys.exit(f"not measured: {', '.join(failed)}; run again with --only {' '.join(failed)}")

    def write(self, runner, name, made):
        kept = runner.build / "results" / f"{self.name}-{name}.json"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"machine": machine(), "date": str(datetime.date.today()), "commit": commit(), "ran": runner.log}, indent=1) + "\n",
                        encoding="utf-8")
        if made is None:
            return
        page = RESULTS / f"{self.name}.md"
        body = f"{table_text(*made)}\n\n{provenance(runner, runner.log[0]['command'])}"
        page.write_text(between(page.read_text(encoding="utf-8"), f"<!-- table {name} -->", body), encoding="utf-8")
