"""Virtual hosts for tools/page_cluster.py: a cluster is made for a section, commands run on its ranks, and it is taken down.

All commands go through `weft cluster`, as a user's would, and are remembered as a user would type them. With --lock FILE each
command is run while that file is locked, so that measurements and other work on the same machine take turns: of some two
minutes each, not of one command, for who waits in line for every second of work never ends.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

RING = ("--mca", "coll_tuned_use_dynamic_rules=1", "--mca", "coll_tuned_allreduce_algorithm=4")


NOISE = 0.1  # of a core
TURN_S = 110


class Others:
    """How much of a core other processes have taken since this was made: the lesser of two figures, each of which can be too large.

    One: what the machine was busy with, less what our own waited-for processes used; daemons' children may be missing from
    that. Two: what processes used that were there before and still are, with children they have waited for since, and all
    that those had used before. The first process takes in orphans and does not count.
    """

    def __init__(self):
        self.busy, self.used, self.began = self.not_ours_s(), self.ticks(), time.monotonic()

    @staticmethod
    def not_ours_s():
        busy = pathlib.Path("/proc/stat").read_text(encoding="utf-8").split()[1:4]
        ours = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
        return sum(map(int, busy)) / os.sysconf("SC_CLK_TCK") - sum(one.ru_utime + one.ru_stime for one in ours)

    @staticmethod
    def ticks():
        out = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                out[path.parent.name] = sum(map(int, path.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[11:15]))
        return out

    def cores(self):
        now, seconds = self.ticks(), time.monotonic() - self.began
        kept = now.keys() & self.used.keys() - {"1", str(os.getpid())}
        two = sum(now[pid] - self.used[pid] for pid in kept) / os.sysconf("SC_CLK_TCK")
        return max(0, min(self.not_ours_s() - self.busy, two)) / seconds


class Turn:
    """The lock: held from one command to the next, until a turn's time is over."""

    def __init__(self, path):
        self.path, self.file, self.began = path, None, 0.0

    def __enter__(self):
        if self.path and self.file is None:
            self.file = open(self.path, "w", encoding="utf-8")
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.began = time.monotonic()

    def __exit__(self, *_):
        if self.file is not None and time.monotonic() - self.began > TURN_S:
            self.end()
            time.sleep(0.5)

    def end(self):
        if self.file is not None:
            self.file.close()
            self.file = None


class Hosts:
    """The weft program, and the cluster that is up."""

    cluster = None  # predictions come from the cluster's own model, which `weft cluster run` hands to ranks

    def __init__(self, options):
        self.build, self.quick, self.out = pathlib.Path(options.build).resolve(), options.quick, pathlib.Path(options.out).resolve()
        self.name, self.turn = options.name, Turn(options.lock)
        self.made, self.others = "", 0.0
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # what runs is ended, and hosts are taken down

    def call(self, words, timeout=600):
        """What it prints. Measured again where other processes took more than NOISE of a core meanwhile."""
        for left in (1, 0):
            with self.turn:
                began, others = time.monotonic(), Others()
                done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout)
                took = time.monotonic() - began
                self.others = others.cores()
            print(f"  {took:5.1f} s, others {self.others:.2f} cores  {' '.join(map(str, words[1:]))}", flush=True)
            if done.returncode != 0:
                raise RuntimeError(f"failed ({done.returncode}): {' '.join(map(str, words))}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
            if self.others <= NOISE or took < 1 or left == 0:
                return done.stdout
        return ""

    @contextlib.contextmanager
    def up(self, words):
        """Hosts for as long as the block lasts; `words` as for `weft cluster up`."""
        weft = str(self.build / "weft")
        subprocess.run([weft, "cluster", "down", "--name", self.name], capture_output=True, check=False)
        made = json.loads(self.call([weft, "cluster", "up", "--name", self.name, *words.split(), "--json"]))
        self.made = f"weft cluster up {words}"
        try:
            yield made
        finally:
            subprocess.run([weft, "cluster", "down", "--name", self.name], capture_output=True, check=False)

    def run(self, ranks, program, mca=()):
        """What the ranks of a program print. `program` is a list of words."""
        return self.call([str(self.build / "weft"), "cluster", "run", "--name", self.name, "-n", str(ranks), *mca, "--", *program])

    def bench(self, ranks, words, rounds, mca=()):
        rounds = min(rounds, 3) if self.quick else rounds
        words = f"{words} --rounds {rounds}"
        seen = json_of(self.run(ranks, [str(self.build / "weft"), "bench", *words.split(), "--json"], mca))
        shown = words.replace(str(self.out) + "/", "")
        seen["command"] = " ".join([f"{self.made}; weft cluster run -n {ranks}", *mca, "-- weft bench", shown])
        seen["others_cores"] = self.others
        for point in seen.get("points", []):
            point.update(command=seen["command"], others_cores=self.others)
        return seen

    def pair(self, server, client):
        """Two programs that are a server and a client, one on each of two hosts: what the client prints."""
        script = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then {server} >/dev/null; else sleep 0.5; {client}; fi'
        return self.run(2, ["/bin/sh", "-c", script])

    def program(self, name):
        """A program of bench/, built first; refused where this machine lacks what it needs."""
        with self.turn:
            done = subprocess.run(["cmake", "--build", self.build, "--target", name], capture_output=True, text=True, check=False)
        path = self.build / "bench" / name
        if done.returncode != 0 or not path.exists():
            raise RuntimeError(f"bench/{name} cannot be built: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return str(path)


def json_of(text):
    """The JSON object among lines that mpirun may have added to."""
    for line in text.splitlines():
        if line.startswith("{"):
            return json.loads(line)
    raise RuntimeError(f"no JSON in: {text[-500:]}")
