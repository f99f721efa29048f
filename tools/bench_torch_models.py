#!/usr/bin/env python3
"""Whole models under PyTorch, with Weft and with gloo: a DLRM's tables, and models/weft-16 in Hugging Face transformers.

Starts torchrun itself, 2 ranks of a thread each. DLRM: both sides in turn in every round of one torchrun, one of them
twice (A/A). transformers: one torchrun per way and round, in turn, for a process has one backend. Its ways: one rank
of a thread and of two; cpu:gloo; cpu:weft; cpu:weft and weft.fuse(model); and the same without any collective, which
writes nonsense and is the floor. What the venv lacks (transformers) is left out and said. With --page FILE what stands between its marks is written anew.

usage: PYTHON tools/bench_torch_models.py [--rounds 5] [--only dlrm|transformers] [--json | --page FILE]
"""

import argparse
import datetime
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import time

from page import ROOT, between, commit, json_of, machine, table_text

BATCH, MOST_ROWS, PROMPT, TOKENS = 2048, 100_000, 512, 64  # rows as in the workload's scale_down


def tables_of(which, ranks):
    """(rows, indices per sample) of each rank's tables: those of DLRM-v2, largest work first, to whom has least."""
    spec = json.loads((ROOT / "workloads" / "dlrm-v2.json").read_text())
    every = [(min(rows, MOST_ROWS), hot) for rows, hot in zip(spec["rows"], spec["multi_hot"])]
    every = [table for table in every if which == "all" or table[1] == 1]
    shares = [[] for _ in range(ranks)]
    for table in sorted(every, key=lambda t: (-t[1], -t[0])):
        min(shares, key=lambda share: (sum(hot for _, hot in share), len(share))).append(table)
    return spec["dim"], shares


def plain_bags(tables, indices, offsets, counts):
    """EmbeddingBag, gloo's all_to_all with its gradient, and each rank's columns side by side."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch.distributed.nn.functional import all_to_all_single

    ranks, dim = dist.get_world_size(), tables[0].shape[1]
    pooled = torch.cat([F.embedding_bag(i, t, o, mode="sum") for t, i, o in zip(tables, indices, offsets)], 1)
    samples = pooled.shape[0] // ranks
    send, receive = [samples * len(tables)] * ranks, [samples * count for count in counts]
    rows = pooled.reshape(-1, dim)
    got = rows.new_empty(sum(receive), dim)
    if torch.is_grad_enabled():
        got = all_to_all_single(got, rows, receive, send)
    else:
        dist.all_to_all_single(got, rows, receive, send)
    return torch.cat([part.reshape(samples, -1) for part in got.split(receive)], 1)


def dlrm_child(which, rounds):
    import torch
    import torch.distributed as dist

    import weft

    dist.init_process_group("gloo")
    weft.init()
    dim, shares = tables_of(which, weft.size())
    generator = torch.Generator().manual_seed(weft.rank())
    mine, counts = shares[weft.rank()], [len(share) for share in shares]
    tables = [torch.randn(rows, dim, generator=generator).requires_grad_() for rows, _ in mine]
    indices = [torch.randint(0, rows, (BATCH * hot,), generator=generator) for rows, hot in mine]
    offsets = [torch.arange(0, BATCH * hot, hot) for _, hot in mine]
    ends = [torch.arange(0, BATCH * hot + 1, hot) for _, hot in mine]

    def ours():
        return weft.embedding_bag_all_to_all(tables, indices, ends, include_last_offset=True, tables_of=counts)

    def gloo():
        return plain_bags(tables, indices, offsets, counts)

    grad = torch.randn(BATCH // weft.size(), sum(counts) * dim, generator=generator)

    def trained(call):
        def step():
            for table in tables:
                table.grad = None
            call().backward(grad)

        return step

    def forward(call):
        def step():
            with torch.no_grad():
                call()

        return step

    with torch.no_grad():
        worst = (ours() - gloo()).abs().max().item()
    calls = {}
    for kind, wrap in (("forward", forward), ("with backward", trained)):
        calls |= {f"{kind}: gloo": wrap(gloo), f"{kind}: weft": wrap(ours), f"{kind}: weft again": wrap(ours)}
    took = {name: [] for name in calls}
    for _ in range(rounds + 1):  # the first is none
        for name, call in calls.items():
            dist.barrier()
            start = time.perf_counter()
            call()
            seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
            dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
            took[name].append(seconds.item())
    if weft.rank() == 0:
        print(json.dumps({"worst": worst, "ms": {n: 1e3 * statistics.median(t[1:]) for n, t in took.items()}}))
    dist.barrier()


WAYS = {
    "one": "one rank:",
    "two threads": "of 2 threads:",
    "gloo": "2, gloo:",
    "weft": "cpu:weft:",
    "fused": "weft.fuse:",
    "floor": "no collectives:",
}
ALONE = "one", "two threads"


def fuse(model, way):
    """The floor has each rank's part of every product, and nothing moves."""
    import weft
    from weft import _fuse

    if way == "floor":
        import torch.nn.functional as F

        def table(w, bias, world):
            return lambda tokens: F.embedding(tokens % w.shape[0], w)

        for style, (_, dim, equal) in _fuse._STYLES.items():
            _fuse._STYLES[style] = (table if style.startswith("embedding") else _fuse._columns, dim, equal)
    left = [line for line in weft.fuse(model) if not line.endswith(": fused")]
    if left:
        raise RuntimeError(f"weft.fuse left {left}")


def transformers_child(way):
    import torch
    import torch.distributed as dist
    import transformers

    if way in ALONE:
        torch.set_num_threads(1 if way == "one" else 2)
    else:
        import weft  # noqa: F401 (registers the backend)

        dist.init_process_group("cpu:gloo" if way == "gloo" else "cpu:weft")
    transformers.logging.set_verbosity_error()
    path = ROOT / "models" / "weft-16"
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    plan = {} if way in ALONE else {"tp_plan": "auto"}
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, **plan).eval()
    if way in ("fused", "floor"):
        fuse(model, way)
    prompt = tokenizer((path / "prompt.txt").read_text(), return_tensors="pt").input_ids[:, :PROMPT]
    prompts, tokens = [], []
    with torch.no_grad():
        for _ in range(5):
            start = time.perf_counter()
            model(prompt)
            prompts.append(time.perf_counter() - start)
        out = model(prompt[:, :16], use_cache=True)
        made = [int(out.logits[0, -1].argmax())]
        for _ in range(TOKENS):
            start = time.perf_counter()
            out = model(torch.tensor([[made[-1]]]), past_key_values=out.past_key_values, use_cache=True)
            made.append(int(out.logits[0, -1].argmax()))
            tokens.append(time.perf_counter() - start)
    if way in ALONE or dist.get_rank() == 0:
        said = {"text": tokenizer.decode(made), "token_ms": 1e3 * statistics.median(tokens)}
        print(json.dumps(said | {"prompt_ms": 1e3 * statistics.median(prompts[1:]), "length": prompt.shape[1]}))
    if way not in ALONE:
        dist.destroy_process_group()


def child(ranks, *words):
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    done = subprocess.run([sys.executable, *launch, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json_of(done.stdout)


def dlrm(rounds):
    return {which: child(2, "--child", f"dlrm {which}", "--rounds", str(rounds)) for which in ("one-hot", "all")}


def served(rounds):
    """Medians over rounds, and the text, which must be one."""
    seen = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, of in seen.items():
            of.append(child(1 if way in ALONE else 2, "--child", f"transformers {way}"))
    texts = {run["text"] for way, runs in seen.items() for run in runs if way != "floor"}
    keys = ("token_ms", "prompt_ms", "length")
    medians = {who: {key: statistics.median(run[key] for run in runs) for key in keys} for who, runs in seen.items()}
    return medians | {"texts": sorted(texts)}


def figures(results):
    import torch

    lines = [f"{datetime.date.today()}, commit {commit()}, {machine()}, torch {torch.__version__}. Milliseconds.", ""]
    if "dlrm" in results:
        rows = []
        for which, seen in results["dlrm"].items():
            for kind in ("forward", "with backward"):
                gloo, ours, again = (seen["ms"][f"{kind}: {who}"] for who in ("gloo", "weft", "weft again"))
                rows.append([f"{which} tables, {kind}", *(f"{t:.1f}" for t in (gloo, ours, again)), f"{gloo / ours:.2f}"])
        lines += [table_text(["DLRM-v2, batch 2048", "EmbeddingBag + gloo:", "Weft:", "again:", "x:"], rows), ""]
    if "transformers" in results:
        seen = results["transformers"]
        rows = [
            [what, *(f"{seen[way][key]:.1f}" for way in WAYS), f"{seen['gloo'][key] / seen['fused'][key]:.2f}",
             f"{seen['fused'][key] / seen['one'][key]:.2f}"]
            for what, key in (("one token", "token_ms"), (f"a prompt of {seen['one']['length']:.0f}", "prompt_ms"))
        ]
        lines += [table_text(["transformers, weft-16", *WAYS.values(), "gloo / fuse:", "fuse / one:"], rows), ""]
        lines += [f"All wrote {'the same text' if len(seen['texts']) == 1 else 'different texts'}, but the last.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["dlrm", "transformers"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, what = options.child.split(" ", 1)
        return dlrm_child(what, options.rounds) if kind == "dlrm" else transformers_child(what)
    results = {}
    if options.only != "transformers":
        results["dlrm"] = dlrm(options.rounds)
    if options.only != "dlrm":
        if importlib.util.find_spec("transformers"):
            results["transformers"] = served(options.rounds)
        else:
            print("transformers is not installed here: left out", file=sys.stderr)
    if options.json:
        print(json.dumps(results))
    elif options.page:
        options.page.write_text(between(options.page.read_text(), "<!-- models -->", figures(results)))
    else:
        print(figures(results))


if __name__ == "__main__":
    main()
