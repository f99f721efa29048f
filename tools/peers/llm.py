#!/usr/bin/env python3
"""Weft beside llama.cpp, distributed-llama and transformers: the same model, prompt and threads, in turns, as one table.

The peers are not here: have them outside the tree, as their projects say, and name what you have.
  --llama-bench FILE      llama.cpp's llama-bench; reads --gguf
  --rpc-server FILE       llama.cpp's rpc-server: with --ranks N, N - 1 servers on this machine beside llama-bench
  --dllama FILE           distributed-llama's dllama; reads --dllama-model and --dllama-tokenizer (its own format);
                          with --ranks N, N - 1 workers on this machine
  --transformers PYTHON   a Python that has torch and transformers; reads --folder, as f32

usage: tools/peers/llm.py --weft build/weft [--gguf FILE.gguf] [--folder DIR] [--prompt 512] [--tokens 64]
                          [--threads 2] [--ranks 1] [--rounds 5] [--out TABLE.md] [--json FILE] [PEERS]

Weft runs what is given: the GGUF file, the folder, or both. Prompts are random tokens of equal number; each round runs
every program once, in order, and the table has medians, their spread and the ratio to Weft with the same weights.
Threads are those of one rank. Whoever is not there is named under the table, with the reason. Run it on a quiet machine.
"""

import argparse
import json
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
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


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Servers:
    """Programs that serve while a peer is measured; ended by their own process objects."""

    def __init__(self, commands):
        self.started = [subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        for words in commands]
        if commands:
            time.sleep(2)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.started:
            server.terminate()
        for server in self.started:
            server.wait(timeout=20)


def weft(options, model):
    draw = random.Random(7)
    ids = ",".join(str(draw.randrange(1, 1000)) for _ in range(options.prompt))
    out = json.loads(run([options.weft, "generate", "--model", model, "--prompt-ids", ids, "--max-tokens", options.tokens,
                          "--ignore-eos", "--activations", options.activations, "--ranks", options.ranks, "--threads", options.threads, "--json"]))
    return {"prompt_s": out["ttft_ms"] / 1e3, "token_s": out["ms_per_token"] / 1e3}


def llama_cpp(options):
    """llama-bench's own repetitions are one: rounds are ours. Its tokens come after a prompt (-d), as everybody's do."""
    words = [options.llama_bench, "-m", options.gguf, "-t", options.threads, "-r", 1, "-o", "json"]
    ports = [free_port() for _ in range(options.ranks - 1)] if options.rpc_server else []
    with Servers([[options.rpc_server, "-H", "127.0.0.1", "-p", port, "-t", options.threads] for port in ports]):
        if ports:
            words += ["--rpc", ",".join(f"127.0.0.1:{port}" for port in ports), "-ngl", 99]
        prompt = json.loads(run(words + ["-p", options.prompt, "-n", 0]))[0]["avg_ts"]
        token = json.loads(run(words + ["-p", 0, "-n", options.tokens, "-d", options.prompt]))[0]["avg_ts"]
    return {"prompt_s": options.prompt / prompt, "token_s": 1 / token}


def distributed_llama(options):
    ports = [free_port() for _ in range(options.ranks - 1)]
    text = " ".join(["word"] * options.prompt)
    words = [options.dllama, "inference", "--model", options.dllama_model, "--tokenizer", options.dllama_tokenizer,
             "--prompt", text, "--steps", options.prompt + options.tokens, "--nthreads", options.threads]
    with Servers([[options.dllama, "worker", "--port", port, "--nthreads", options.threads] for port in ports]):
        if ports:
            words += ["--workers"] + [f"127.0.0.1:{port}" for port in ports]
        out = run(words)
    parts = {}
    for name in ("Evaluation", "Prediction"):
        found = re.search(name + r".*?nTokens:\s*(\d+).*?tokens/s:\s*([0-9.]+)", out, re.DOTALL)
        if not found:
            raise RuntimeError(f"dllama printed no \"{name}\"; is this a version with the command inference?")
        parts[name] = (int(found[1]), float(found[2]))
    return {"prompt_s": parts["Evaluation"][0] / parts["Evaluation"][1], "token_s": 1 / parts["Prediction"][1]}


def transformers(options):
    return json.loads(run([options.transformers, "-c", TRANSFORMERS, options.folder, options.prompt, options.tokens,
                           options.threads * options.ranks]))


def contestants(options):
    """Name, the weights it reads, what runs it; and who is not there, with the reason."""
    there, missing = [], []
    if options.gguf:
        there.append(("Weft", options.gguf, lambda: weft(options, options.gguf)))
    if options.folder:
        there.append(("Weft", options.folder, lambda: weft(options, options.folder)))
    if options.llama_bench and options.gguf and (options.ranks == 1 or options.rpc_server):
        name = "llama.cpp" if options.ranks == 1 else "llama.cpp RPC"
        there.append((name, options.gguf, lambda: llama_cpp(options)))
    else:
        missing.append("llama.cpp: give --llama-bench and --gguf" + (", and --rpc-server for ranks" if options.ranks > 1 else ""))
    if options.dllama and options.dllama_model and options.dllama_tokenizer:
        there.append(("distributed-llama", options.dllama_model, lambda: distributed_llama(options)))
    else:
        missing.append("distributed-llama: give --dllama, --dllama-model and --dllama-tokenizer")
    if options.transformers and options.folder:
        there.append(("transformers f32", options.folder, lambda: transformers(options)))
    else:
        missing.append("transformers: give --transformers PYTHON and --folder")
    return there, missing


def measure(options):
    there, missing = contestants(options)
    if not there:
        raise SystemExit("llm.py: nothing to run; give --gguf FILE or --folder DIR")
    times = [[] for _ in there]
    for number in range(options.rounds):
        for index, (name, _, go) in enumerate(there):
            try:
                times[index].append(go())
            except (RuntimeError, OSError, subprocess.TimeoutExpired, json.JSONDecodeError, KeyError) as error:
                if name == "Weft":
                    raise SystemExit(f"llm.py: {error}") from error
                missing.append(f"{name}: {error}")
                times[index] = []
        there, times = zip(*[(t, s) for t, s in zip(there, times) if s]) if any(times) else ((), ())
        there, times = list(there), list(times)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return there, times, missing


def rows_of(there, times):
    rows = []
    for (name, weights, _), seconds in zip(there, times):
        row = {"name": name, "weights": pathlib.Path(weights).name}
        for part in ("prompt_s", "token_s"):
            values = sorted(second[part] for second in seconds)
            row[part] = statistics.median(values)
            row[part + "_spread"] = (values[-1] - values[0]) / row[part]
        rows.append(row)
    for row in rows:  # beside Weft with the same weights, else with what it has
        own = [r for r in rows if r["name"] == "Weft"]
        beside = next((r for r in own if r["weights"] == row["weights"]), own[0])
        row["prompt_ratio"] = row["prompt_s"] / beside["prompt_s"]
        row["token_ratio"] = row["token_s"] / beside["token_s"]
    return rows


def table_of(options, rows, missing):
    lines = [f"Prompt of {options.prompt} tokens, then {options.tokens}; {options.ranks} rank(s) of {options.threads} thread(s); "
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
                 "transformers", "out", "json"):
        parser.add_argument("--" + name, default="build/weft" if name == "weft" else "")
    for name, value in (("prompt", 512), ("tokens", 64), ("threads", 2), ("ranks", 1), ("rounds", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--activations", default="f32", help="of Weft's prompts with bf16 weights: bf16 as llama.cpp has them")
    options = parser.parse_args()
    there, times, missing = measure(options)
    rows = rows_of(there, times)
    table = table_of(options, rows, missing)
    print(table, end="")
    if options.out:
        pathlib.Path(options.out).write_text(table)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"rows": rows, "missing": missing}, indent=1) + "\n")


if __name__ == "__main__":
    main()
