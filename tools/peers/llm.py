#!/usr/bin/env python3
"""Weft beside llama.cpp, distributed-llama and transformers: the same model, prompt and threads, in turns, as one table.

The peers are not here: have them outside the tree, as their projects say, and name what you have.
  --llama-bench FILE      llama.cpp's llama-bench; reads --gguf
  --rpc-server FILE       its ggml-rpc-server: with several ranks one server per rank, each with its part of the blocks
  --dllama FILE           distributed-llama's dllama; reads --dllama-model and --dllama-tokenizer (its own format);
                          with several ranks one worker per rank but the first
  --transformers PYTHON   a Python that has torch and transformers; reads --folder, as f32

usage: tools/peers/llm.py --weft build/weft [--gguf FILE.gguf] [--folder DIR] [--prompt 512] [--tokens 64]
                          [--threads 2] [--ranks 1] [--rounds 5] [--out TABLE.md] [--json FILE] [PEERS]
       tools/peers/llm.py --ranks 2 --threads 1 --rate 1gbit ...         one rank on each of 2 virtual hosts (root)
       tools/peers/llm.py --ranks 4 --threads 1 --rate 250mbit --cpus 0.5 ...

Weft runs what is given: the GGUF file, the folder, or both; --weights as its own flag, or both ways. Prompts are random tokens of equal number; each round runs
every program once, in order, and the table has medians, their spread and the ratio to Weft with the same weights.
Threads are those of one rank. Whoever is not there is named under the table, with the reason. Run it on a quiet machine.
tools/peers/random_model.py writes a model where none is at hand.
"""

import argparse
import json
import pathlib
import random
import re
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TRANSFORMERS = r"""
import json, sys, time, torch
from transformers import AutoModelForCausalLM
folder, prompt, tokens, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
ids = torch.randint(0, model.config.vocab_size, (1, prompt))
def once(ids, cache):
    with torch.inference_mode():
        out = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[:, -1:].argmax(-1), out.past_key_values
once(ids, None)
start = time.perf_counter()
token, cache = once(ids, None)
first = time.perf_counter()
for _ in range(tokens - 1):
    token, cache = once(token, cache)
end = time.perf_counter()
print(json.dumps({"prompt_s": first - start, "token_s": (end - first) / max(1, tokens - 1)}))
"""


def run(words, timeout=1800):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"{pathlib.Path(str(words[0])).name}: {lines[-1] if lines else 'no output'}")
    return done.stdout


def quoted(words):
    return " ".join(shlex.quote(str(word)) for word in words)


class Machine:
    """Ranks as processes of this machine: servers on free ports of the loopback."""

    def __init__(self, options):
        self.options = options
        self.ports = []
        for _ in range(options.ranks):
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                self.ports.append(listener.getsockname()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def address(self, rank):
        return f"127.0.0.1:{self.ports[rank]}"

    def weft(self, words):
        return run([self.options.weft, *words, "--ranks", self.options.ranks])

    def served(self, first, server, words):
        """What `words` print while server(rank) runs for every rank from `first` on."""
        started = [subprocess.Popen([str(word) for word in server(rank)], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for rank in range(first, self.options.ranks)]
        try:
            time.sleep(2 if started else 0)
            return run(words)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(timeout=20)


class Hosts(Machine):
    """Ranks on virtual hosts (weft cluster): what serves and what asks are ranks of one `weft cluster run`."""

    NAME = "llm"

    def __enter__(self):
        shape = ["--cpus", self.options.cpus] if self.options.cpus else ["--pin"]
        run([self.options.weft, "cluster", "up", "--name", self.NAME, "--hosts", self.options.ranks, "--rate",
             self.options.rate, *shape])
        listed = json.loads(run([self.options.weft, "cluster", "list", "--json"]))
        own = f"weft-{self.NAME}-"
        self.hosts = [host["address"] for host in listed["hosts"] if host["name"].startswith(own)]
        return self

    def __exit__(self, *_):
        run([self.options.weft, "cluster", "down", "--name", self.NAME])

    def address(self, rank):
        return f"{self.hosts[rank]}:{self.ports[rank]}"

    def on_hosts(self, words):
        return run([self.options.weft, "cluster", "run", "--name", self.NAME, "-n", self.options.ranks, "--", *words])

    def weft(self, words):
        return self.on_hosts([pathlib.Path(self.options.weft).resolve(), *words])

    def served(self, first, server, words):
        """Rank 0 asks, ranks from `first` on serve, until a file says that the answer is there."""
        with tempfile.TemporaryDirectory() as folder:
            lines = [f"cd {folder}", "case $OMPI_COMM_WORLD_RANK in"]
            for rank in range(first, self.options.ranks):
                lines.append(f"{rank}) {quoted(server(rank))} > server{rank} 2>&1 & server=$!;;")
            lines += ["esac", "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then",
                      f"sleep 2; {quoted(words)} > out 2> err; code=$?; touch done; fi",
                      "while [ ! -e done ]; do sleep 0.1; done", "[ -z $server ] || kill $server", "exit ${code:-0}"]
            try:
                self.on_hosts(["bash", "-c", "\n".join(lines)])
            except RuntimeError:
                said = (pathlib.Path(folder) / "err").read_text().strip().splitlines()
                raise RuntimeError(said[-1] if said else "it failed without a word") from None
            return (pathlib.Path(folder) / "out").read_text()


def weft(options, place, model, weights):
    draw = random.Random(7)
    ids = ",".join(str(draw.randrange(1, 1000)) for _ in range(options.prompt))
    out = place.weft(["generate", "--model", pathlib.Path(model).resolve(), "--prompt-ids", ids, "--max-tokens",
                      options.tokens, "--ignore-eos", "--activations", options.activations, "--threads",
                      options.threads, "--json", *(["--weights", weights] if weights != "mapped" else []),
                      *(["--bandwidth"] if options.bandwidth else [])])
    told = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    return {"prompt_s": told["ttft_ms"] / 1e3, "token_s": told["ms_per_token"] / 1e3, "read_share": told.get("read_share")}


def llama_cpp(options, place):
    """llama-bench's own repetitions are one: rounds are ours. Its tokens come after a prompt (-d), as everybody's do; but over RPC,
    where a process sends all weights before it begins, one process makes the prompt and then tokens from nothing."""
    words = [options.llama_bench, "-m", options.gguf, "-t", options.threads, "-r", 1, "-o", "json"]

    def seconds(first, flags):
        """Of the prompt and of a token, as far as they were asked for."""
        told = json.loads(place.served(first, server, words + flags))
        return {"prompt_s" if row["n_prompt"] > 0 else "token_s": row["avg_ns"] / 1e9 / (1 if row["n_prompt"] > 0 else row["n_gen"])
                for row in told}

    def server(rank):
        host, port = place.address(rank).split(":")
        return [options.rpc_server, "-H", host, "-p", port, "-t", options.threads]

    if options.ranks > 1:
        words += ["--rpc", ",".join(place.address(rank) for rank in range(options.ranks)), "-ngl", 99, "--no-warmup"]
        return seconds(0, ["-p", options.prompt, "-n", options.tokens])
    nobody = options.ranks
    return {**seconds(nobody, ["-p", options.prompt, "-n", 0]),
            **seconds(nobody, ["-p", 0, "-n", options.tokens, "-d", options.prompt])}


def distributed_llama(options, place):
    """Its prompts are texts: four letters are as many of its tokens, and each part's tokens are counted by itself."""
    words = [options.dllama, "inference", "--model", options.dllama_model, "--tokenizer", options.dllama_tokenizer,
             "--buffer-float-type", "q80", "--max-seq-len", 2 * options.prompt, "--prompt", " the" * (options.prompt // 4),
             "--steps", options.prompt + options.tokens, "--nthreads", options.threads]
    if options.ranks > 1:
        words += ["--workers", *[place.address(rank) for rank in range(1, options.ranks)]]
    out = place.served(1, lambda rank: [options.dllama, "worker", "--port", place.address(rank).split(":")[1], "--nthreads",
                                        options.threads], words)
    parts = {}
    for name in ("Evaluation", "Prediction"):
        found = re.search(name + r"\s.*?nTokens:\s*(\d+).*?tokens/s:\s*([0-9.]+)", out, re.DOTALL)
        if not found:
            raise RuntimeError(f"dllama printed no \"{name}\"; is this a version with the command inference?")
        parts[name] = float(found[2])
    return {"prompt_s": options.prompt / parts["Evaluation"], "token_s": 1 / parts["Prediction"]}


def transformers(options):
    return json.loads(run([options.transformers, "-c", TRANSFORMERS, options.folder, options.prompt, options.tokens,
                           options.threads * options.ranks]))


def contestants(options, place):
    """Name, the weights it reads, what runs it; and who is not there, with the reason."""
    there, missing = [], []
    for model in filter(None, (options.gguf, options.folder)):
        for weights in options.weights.split(","):
            name = "Weft" if weights == "mapped" else "Weft, " + weights
            there.append((name, model, lambda model=model, weights=weights: weft(options, place, model, weights)))
    if options.llama_bench and options.gguf and (options.ranks == 1 or options.rpc_server):
        name = "llama.cpp" if options.ranks == 1 else "llama.cpp RPC"
        there.append((name, options.gguf, lambda: llama_cpp(options, place)))
    else:
        missing.append("llama.cpp: give --llama-bench and --gguf" + (", and --rpc-server for ranks" if options.ranks > 1 else ""))
    if options.dllama and options.dllama_model and options.dllama_tokenizer:
        there.append(("distributed-llama", options.dllama_model, lambda: distributed_llama(options, place)))
    else:
        missing.append("distributed-llama: give --dllama, --dllama-model and --dllama-tokenizer")
    if options.transformers and options.folder and options.ranks == 1:
        there.append(("transformers f32", options.folder, lambda: transformers(options)))
    else:
        missing.append("transformers: give --transformers PYTHON and --folder, with one rank")
    return there, missing


def read_once(weights):
    """Lest the first program of a round read from the disk what the next ones find in memory."""
    for path in [weights] if weights.is_file() else weights.glob("*.safetensors"):
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass


def measure(options, place):
    there, missing = contestants(options, place)
    if not options.gguf and not options.folder:
        raise SystemExit("llm.py: nothing to run; give --gguf FILE or --folder DIR")
    times = {index: [] for index in range(len(there))}
    for number in range(options.rounds):
        for index in list(times):
            name, weights, go = there[index]
            read_once(pathlib.Path(weights))
            try:
                times[index].append(go())
            except (RuntimeError, OSError, subprocess.TimeoutExpired, json.JSONDecodeError, KeyError, StopIteration) as error:
                if name.startswith("Weft"):
                    raise SystemExit(f"llm.py: {error}") from error
                missing.append(f"{name}: {error}")
                del times[index]
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return [there[index] for index in times], list(times.values()), missing


def rows_of(there, times):
    rows = []
    for (name, weights, _), seconds in zip(there, times):
        row = {"name": name, "weights": pathlib.Path(weights).name}
        for part in ("prompt_s", "token_s"):
            values = sorted(second[part] for second in seconds)
            row[part] = statistics.median(values)
            row[part + "_spread"] = (values[-1] - values[0]) / row[part]
        if seconds[0].get("read_share"):
            row["read_share"] = statistics.median(second["read_share"] for second in seconds)
        rows.append(row)
    for row in rows:  # beside Weft with the same weights, else with what it has
        own = [r for r in rows if r["name"].startswith("Weft")]
        beside = next((r for r in own if r["weights"] == row["weights"]), own[0])
        row["prompt_ratio"] = row["prompt_s"] / beside["prompt_s"]
        row["token_ratio"] = row["token_s"] / beside["token_s"]
    return rows


def table_of(options, rows, missing):
    hosts = f" on virtual hosts, {options.rate}" + (f", {options.cpus} cores each" if options.cpus else "") if options.rate else ""
    lines = [f"Prompt of {options.prompt} tokens, then {options.tokens}; {options.ranks} rank(s) of {options.threads} thread(s){hosts}; "
             f"medians of {options.rounds} rounds in turns. Ratios: times Weft's time.", "",
             "| program | weights | prompt, ms | ratio | ms per token | ratio | spread |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['name']} | {row['weights']} | {row['prompt_s'] * 1e3:.1f} | {row['prompt_ratio']:.2f} | "
                     f"{row['token_s'] * 1e3:.2f} | {row['token_ratio']:.2f} | {row['token_s_spread'] * 100:.0f} % |")
    lines += [""] + [f"Not run: {reason}." for reason in missing]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("weft", "gguf", "folder", "llama-bench", "rpc-server", "dllama", "dllama-model", "dllama-tokenizer",
                 "transformers", "rate", "cpus", "out", "json"):
        parser.add_argument("--" + name, default="build/weft" if name == "weft" else "")
    for name, value in (("prompt", 512), ("tokens", 64), ("threads", 2), ("ranks", 1), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--weights", default="mapped", help="of Weft: mapped, copied, or both: mapped,copied")
    parser.add_argument("--bandwidth", action="store_true", help="have Weft say how much of the read bandwidth its tokens reach")
    parser.add_argument("--activations", default="f32", help="of Weft's prompts with bf16 weights: bf16 as llama.cpp has them")
    options = parser.parse_args()
    if options.cpus and not options.rate:
        raise SystemExit("llm.py: --cpus is for virtual hosts; give --rate")
    with (Hosts if options.rate else Machine)(options) as place:
        there, times, missing = measure(options, place)
    rows = rows_of(there, times)
    table = table_of(options, rows, missing)
    print(table, end="")
    if options.out:
        pathlib.Path(options.out).write_text(table)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"rows": rows, "missing": missing}, indent=1) + "\n")


if __name__ == "__main__":
    main()
