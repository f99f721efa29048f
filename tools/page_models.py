#!/usr/bin/env python3
"""Models beside other programs: writes the tables of docs/results/models.md. Peers are named, not fetched (tools/peers/llm.py).

Models are of random weights, as speed does not ask what they say: written once into --work (tools/peers/random_model.py, weft quantize;
bf16 GGUF files by llama.cpp's llama-quantize). distributed-llama's own file is made by its converter from WORK/1.1b, as q40.
`quality` needs models/weft-16 alone. What was measured is kept in WORK/pieces; with --minutes a run stops after the piece that passes
them, and the next run goes on, so that a machine is held for a while at a time. --fresh measures all anew.

usage: tools/page_models.py [--build build] [--only TABLE ...] [--work build/models] [--llama BIN_FOLDER] [--dllama FILE]
                            [--dllama-model FILE] [--dllama-tokenizer FILE] [--transformers PYTHON] [--minutes M] [--fresh] [--quick]
"""

import json
import pathlib
import shutil
import statistics
import sys
import time

from page import ROOT, Page, json_of, ratio

PEERS = ROOT / "tools" / "peers"
STARTED = time.monotonic()
AVX2 = {"WEFT_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}  # torch too


class Models:
    """Files that are made once and kept in WORK."""

    def __init__(self, weft):
        self.weft, self.work, self.options = weft, pathlib.Path(weft.options.work), weft.options
        self.work.mkdir(parents=True, exist_ok=True)
        if self.options.fresh:
            shutil.rmtree(self.work / "pieces", ignore_errors=True)
            self.options.fresh = False

    def folder(self, shape):
        if not (self.work / shape / "model.safetensors").exists():
            self.weft.call([sys.executable, PEERS / "random_model.py", shape, self.work / shape])
        return self.work / shape

    def gguf(self, shape, kind):
        path = self.work / f"{shape}-{kind}.gguf"
        if path.exists():
            return path
        if kind != "bf16":
            self.weft.call(["weft", "quantize", self.folder(shape), "--type", kind, "--out", path])
        elif self.options.llama:
            quantize = pathlib.Path(self.options.llama) / "llama-quantize"
            self.weft.call([quantize, "--allow-requantize", self.gguf(shape, "q8_0"), path, "BF16"])
        return path if path.exists() else None

    def piece(self, name, measure):
        """What measure() returned, now or in an earlier run."""
        kept = self.work / "pieces" / (name + ".json")
        if not kept.exists():
            if self.options.minutes and time.monotonic() - STARTED > 60 * self.options.minutes:
                raise SystemExit(f"page_models.py: stopped before {name}; run it again to go on")
            before = len(self.weft.log)
            seen = measure()
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps({"ran": self.weft.log[before:], "seen": seen}, indent=1) + "\n")
            return seen
        told = json.loads(kept.read_text())
        self.weft.log += told["ran"]
        return told["seen"]

    def beside(self, name, ranks, threads, *words):
        """The rows that tools/peers/llm.py gives, by program, medians of rounds; its peers are those that were named. A round is a piece."""
        o, told = self.options, self.work / "told.json"
        flags = ["--ranks", ranks, "--threads", threads, "--rounds", 1, "--tokens", 32]
        peers = ["--weft", self.weft.build / "weft", "--json", told]
        if o.llama:
            peers += ["--llama-bench", pathlib.Path(o.llama) / "llama-bench", "--rpc-server", pathlib.Path(o.llama) / "ggml-rpc-server"]
        if ranks > 1 and o.dllama:
            peers += ["--dllama", o.dllama, "--dllama-model", o.dllama_model, "--dllama-tokenizer", o.dllama_tokenizer]
        if ranks == 1 and o.transformers and "--folder" in words:
            peers += ["--transformers", o.transformers]
        shown = ["tools/peers/llm.py", *flags, *(pathlib.Path(word).name for word in map(str, words)), "PEERS"]

        def measure():
            self.weft.call([PEERS / "llm.py", *flags, *words, *peers], " ".join(map(str, shown)))
            return json.loads(told.read_text())["rows"]

        seen = {}
        for number in range(1 if self.weft.quick else o.rounds):
            for row in self.piece(f"{name}-{number + 1}", measure):
                seen.setdefault(row["name"], []).append(row)
        parts = ("prompt_s", "token_s", "read_share")
        return {program: {part: statistics.median(row[part] for row in rows) for part in parts if part in rows[0]} for program, rows in seen.items()}


def ms(row, part):
    return f"{1e3 * row[part]:.0f}" if row and part == "prompt_s" else f"{1e3 * row[part]:.1f}" if row else "–"


def over(row, own, part):
    """How many times Weft's time the other needs."""
    return ratio(row[part], own[part]) if row else "–"


def decode(weft):
    models, rows = Models(weft), []
    for kind in ("bf16", "q8_0", "q4_k"):
        for threads in (1, 2):
            path = models.gguf("1.1b", kind)
            if path is None:
                continue
            words = ["--gguf", path, "--weights", "mapped,copied", "--bandwidth"]
            words += ["--activations", "bf16"] if kind == "bf16" else []  # as llama.cpp has them
            seen = models.beside(f"decode-{kind}-{threads}", 1, threads, *words)
            mapped, own, other = seen["Weft"], seen["Weft, copied"], seen.get("llama.cpp")
            rows.append([kind, threads, ms(mapped, "token_s"), ms(own, "token_s"), f"{own['read_share']:.2f}", ms(other, "token_s"),
                         over(other, own, "token_s"), ms(own, "prompt_s"), ms(other, "prompt_s"), over(other, own, "prompt_s")])
    return ["weights", "threads:", "mapped, ms per token:", "copied:", "of read bandwidth:", "llama.cpp:", "x:", "prompt, ms:", "llama.cpp:", "x:"], rows


def prompt(weft):
    """transformers beside f32 activations, llama.cpp beside bf16; and what avx2 does, which has no products of bf16."""
    models, rows = Models(weft), []
    for shape in ("134m", "1.2b"):
        for activations in ("f32", "bf16", "f32, avx2"):
            words = ["--activations", activations[:4].rstrip(",")]
            if activations == "bf16":
                gguf = models.gguf(shape, "bf16")
                words += ["--gguf", gguf] if gguf is not None else ["--folder", models.folder(shape)]
            else:
                words += ["--folder", models.folder(shape)]
            plain = weft.env
            weft.env = {**plain, **AVX2} if "avx2" in activations else plain
            seen = models.beside(f"prompt-{shape}-{activations.replace(', ', '-')}", 1, 2, *words)
            weft.env = plain
            own, torch, llama = seen["Weft"], seen.get("transformers f32"), seen.get("llama.cpp")
            rows.append([shape, activations, ms(own, "prompt_s"), ms(torch, "prompt_s"), over(torch, own, "prompt_s"),
                         ms(llama, "prompt_s"), over(llama, own, "prompt_s")])
    return ["model", "activations", "Weft, ms:", "transformers f32:", "x:", "llama.cpp bf16:", "x:"], rows


def hosts(weft):
    models, rows = Models(weft), []
    for count, link in ((2, ["--rate", "1gbit"]), (4, ["--rate", "250mbit", "--cpus", "0.5"])):
        seen = models.beside(f"hosts-{count}", count, 1, "--gguf", models.gguf("1.1b", "q4_0"), *link)
        own = seen["Weft"]
        for name in ("Weft", "llama.cpp RPC", "distributed-llama"):
            row = seen.get(name)
            rows.append([f"{count}, {link[1]}", name, ms(row, "token_s"), over(row, own, "token_s"), ms(row, "prompt_s"), over(row, own, "prompt_s")])
    return ["hosts", "program", "ms per token:", "x:", "prompt, ms:", "x:"], rows


def ranks(weft):
    """2 ranks of a thread against a rank of 2 threads, in turns."""
    models, rows = Models(weft), []
    for kind in ("bf16", "q8_0", "q4_k"):
        path = models.gguf("1.1b", kind) or models.folder("1.1b")
        ids = ",".join(map(str, range(1, 513)))

        def one(count, path=path):
            words = f"--max-tokens 32 --ignore-eos --ranks {count} --threads {3 - count} --json"
            shown = f"weft generate --model {path.name} --prompt-ids 1,2,...,512 {words}"
            return json_of(weft.call(["weft", "generate", "--model", path, "--prompt-ids", ids, *words.split()], shown))

        def measure(one=one):
            seen = {1: [], 2: []}
            for _ in range(1 if weft.quick else weft.options.rounds):
                for count in seen:
                    seen[count].append(one(count))
            return {part: [statistics.median(s[part] for s in seen[count]) for count in (1, 2)] for part in ("ms_per_token", "ttft_ms")}

        seen = models.piece(f"ranks-{kind}", measure)
        token, first = seen["ms_per_token"], seen["ttft_ms"]
        rows.append([kind, f"{token[0]:.1f}", f"{token[1]:.1f}", ratio(*token), f"{first[0]:.0f}", f"{first[1]:.0f}", ratio(*first)])
    return ["weights", "1 x 2, ms per token:", "2 x 1:", "rate of 2 x 1:", "1 x 2, prompt ms:", "2 x 1:", "rate of 2 x 1:"], rows


def quality(weft):
    model, rows = ROOT / "models/weft-16", []
    models = Models(weft)
    limit = "--limit 8" if weft.quick else ""

    def perplexity(path, words=""):
        return weft.json(f"eval --model {path} --text {model / 'heldout.txt'} {limit} {words}")["perplexity"]

    plain = perplexity(model)
    rows.append(["bf16, as it is", "16.0", f"{plain:.3f}", ""])
    rounded = perplexity(model, "--activations bf16")
    rows.append(["bf16, activations bf16", "16.0", f"{rounded:.3f}", f"{100 * (rounded / plain - 1):+.3f} %"])
    weights = sum(p.stat().st_size for p in model.glob("*.safetensors")) / 2
    text = ["--calibrate", model / "calibration.txt"]
    for name, kind, words in (("q8_0", "q8_0", []), ("q6_k", "q6_k", []), ("q4_k", "q4_k", []), ("q4_k, calibrated", "q4_k", text),
                              ("q4_k_m", "q4_k_m", []), ("q4_k_m, calibrated", "q4_k_m", text), ("q4_0", "q4_0", [])):
        path = models.work / f"weft-16-{name.replace(', ', '-')}.gguf"
        weft.call(["weft", "quantize", model, "--type", kind, *words, "--out", path])
        seen = perplexity(path)
        rows.append([name, f"{8 * path.stat().st_size / weights:.1f}", f"{seen:.3f}", f"{100 * (seen / plain - 1):+.2f} %"])
    return ["weights", "bits per weight:", "perplexity:", "change:"], rows


def flags(parser):
    parser.add_argument("--work", default="build/models")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--fresh", action="store_true")
    for name in ("llama", "dllama", "dllama-model", "dllama-tokenizer", "transformers"):
        parser.add_argument("--" + name, default="")


if __name__ == "__main__":
    Page("models", __doc__, {"decode": decode, "prompt": prompt, "hosts": hosts, "ranks": ranks, "quality": quality}).main(flags)
