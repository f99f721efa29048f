"""What models/weft-16 can do: perplexity on held-out text beside a 5-gram model, task accuracies, sensitivity of its blocks to sync-point drop.

    weft16_eval.py --model models/weft-16 --text models/weft-16/heldout.txt --tasks models/weft-16/tasks.jsonl --train W/train.u16 --out eval.json

Perplexity: the whole text as one token stream, cut into windows of 1024 that do not overlap; the first token of a window is not scored, nor is a
last partial window. The 5-gram model is scored on exactly those tokens, with its full context across windows. Sensitivity as in the
paper: S[i] = perplexity with blocks i.. dropped minus that with blocks i + 1.. dropped. All in f32.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import weft16_model
import weft16_ngram

LENGTH = 1024


@torch.no_grad()
def log_likelihoods(model, windows, **dropped):
    """(windows, length - 1) log-probabilities of the tokens after the first."""
    found = []
    for batch in windows.split(16):
        logits = model(batch[:, :-1], **dropped).log_softmax(-1)
        found.append(logits.gather(-1, batch[:, 1:, None])[..., 0])
    return torch.cat(found)


def perplexities(model, tokens, text_bytes, train_file):
    windows = tokens[:len(tokens) // LENGTH * LENGTH].view(-1, LENGTH)
    ours = log_likelihoods(model, windows).double()
    train = torch.from_numpy(np.fromfile(train_file, dtype=np.uint16).astype(np.int64)).to(tokens.device)
    ngram = weft16_ngram.KneserNey(train, model.config["vocab_size"])
    padded = torch.cat([tokens.new_zeros(4), windows.flatten()])
    theirs = ngram.probabilities(padded).log().view(-1, LENGTH)[:, 1:]
    scored = ours.numel()
    share = text_bytes * scored / len(tokens)  # bytes of the scored tokens, by the mean bytes a token
    result = {"tokens": len(tokens), "bytes": text_bytes, "scored_tokens": scored, "train_tokens": len(train)}
    for name, values in (("model", ours), ("five_gram", theirs)):
        nll = -float(values.sum())
        result[name] = {"perplexity_per_token": round(math.exp(nll / scored), 3), "perplexity_per_byte": round(math.exp(nll / share), 4),
                        "bits_per_byte": round(nll / share / math.log(2), 4)}
    return result


@torch.no_grad()
def score(model, tokenizer, pairs):
    """For each (context, continuation): (sum of log-probabilities, whether each token was the most probable one)."""
    coded = [(tokenizer.encode(c).ids, tokenizer.encode(t).ids) for c, t in pairs]
    results = [None] * len(coded)
    order = sorted(range(len(coded)), key=lambda i: len(coded[i][0]) + len(coded[i][1]))
    for begin in range(0, len(order), 512):
        part = order[begin:begin + 512]
        width = max(sum(map(len, coded[i])) for i in part)
        ids = torch.zeros(len(part), width, dtype=torch.int64)
        for row, i in enumerate(part):
            ids[row, :sum(map(len, coded[i]))] = torch.tensor(coded[i][0] + coded[i][1])
        logits = model(ids.cuda()).log_softmax(-1)
        best = logits.argmax(-1)[:, :-1].cpu()
        chosen = logits[:, :-1].gather(-1, ids[:, 1:, None].cuda())[..., 0].cpu()
        for row, i in enumerate(part):
            place = slice(len(coded[i][0]) - 1, sum(map(len, coded[i])) - 1)
            results[i] = float(chosen[row, place].sum()), bool((best[row, place] == ids[row, 1:][place]).all())
    return results


def accuracies(model, tokenizer, file):
    items = [json.loads(line) for line in open(file, encoding="utf-8")]
    last = [i for i in items if i["task"] == "last_word"]
    choice = [i for i in items if i["task"] == "continuation"]
    hits = [exact for _, exact in score(model, tokenizer, [(i["context"], i["target"]) for i in last])]
    scores = iter(score(model, tokenizer, [(i["context"], c) for i in choice for c in i["choices"]]))
    picks = [max(range(4), key=lambda n, s=[next(scores)[0] / len(c.encode()) for c in i["choices"]]: s[n]) for i in choice]
    right = [p == i["answer"] for p, i in zip(picks, choice)]
    return {name: {"items": len(r), "accuracy": round(float(np.mean(r)), 4), "ci95": round(1.96 * float(np.std(r)) / len(r) ** 0.5, 4)}
            for name, r in (("last_word", hits), ("continuation", right))}


def sensitivity(model, tokens, ranks):
    """Perplexity with blocks i.. dropped for every i, and S."""
    windows = tokens[:min(64, len(tokens) // LENGTH) * LENGTH].view(-1, LENGTH)
    blocks = model.config["num_hidden_layers"]
    ppl = [math.exp(-float(log_likelihoods(model, windows, dropped=range(i, blocks), ranks=ranks).double().mean())) for i in range(blocks + 1)]
    return {"ranks": ranks, "perplexity_dropped_from": [round(p, 4) for p in ppl],
            "S": [round(ppl[i] - ppl[i + 1], 4) for i in range(blocks)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    model = weft16_model.load(args.model).cuda()
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    text = args.text.read_text(encoding="utf-8")
    tokens = torch.tensor(tokenizer.encode(text).ids).cuda()
    result = {"perplexity": perplexities(model, tokens, len(text.encode()), args.train), "tasks": accuracies(model, tokenizer, args.tasks),
              "sensitivity": [sensitivity(model, tokens, ranks) for ranks in (2, 4, 8)]}
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
