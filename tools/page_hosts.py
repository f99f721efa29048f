"""Virtual hosts for tools/page_cluster.py: a cluster is made for a section, commands run on its ranks, and it is taken down.

All commands go through `weft cluster`, as a user's would, and are remembered as a user would type them. With --lock FILE each
command is run while that file is locked, so that measurements and other work on the same machine take turns.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import subprocess
import time

RING = ("--mca", "coll_tuned_use_dynamic_rules=1", "--mca", "coll_tuned_allreduce_algorithm=4")


class Hosts:
    """The weft program, and the cluster that is up."""

    cluster = None  # predictions come from the cluster's own model, which `weft cluster run` hands to ranks

    def __init__(self, options):
        self.build, self.quick, self.out = pathlib.Path(options.build).resolve(), options.quick, pathlib.Path(options.out).resolve()
        self.name, self.lock = options.name, options.lock
        self.made = ""

    def call(self, words, timeout=600):
        with contextlib.ExitStack() as held:
            if self.lock:
                fcntl.flock(held.enter_context(open(self.lock, "w", encoding="utf-8")), fcntl.LOCK_EX)
            began = time.monotonic()
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout)
        print(f"  {time.monotonic() - began:5.1f} s  {' '.join(map(str, words[1:]))}", flush=True)
        if done.returncode != 0:
            raise RuntimeError(f"failed ({done.returncode}): {' '.join(map(str, words))}\n{done.stdout[-500:]}{done.stderr[-2000:]}")
        return done.stdout

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
        for point in seen.get("points", []):
            point["command"] = seen["command"]
        return seen

    def pair(self, server, client):
        """Two programs that are a server and a client, one on each of two hosts: what the client prints."""
        script = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then {server} >/dev/null; else sleep 0.5; {client}; fi'
        return self.run(2, ["/bin/sh", "-c", script])

    def program(self, name):
        """A program of bench/, built first; refused where this machine lacks what it needs."""
        with contextlib.ExitStack() as held:
            if self.lock:
                fcntl.flock(held.enter_context(open(self.lock, "w", encoding="utf-8")), fcntl.LOCK_EX)
            done = subprocess.run(["cmake", "--build", self.build, "--target", name], capture_output=True, text=True, check=False,
                                  env={**os.environ})
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
