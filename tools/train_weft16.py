"""Trains models/weft-16 on one GPU: byte-level BPE, then a Llama of 15.7 M parameters, in minutes.

    train_weft16.py tokenize --text 'DIR/train-*.txt.xz' --work W [--tokenizer FILE]   W/tokenizer.json, W/train.u16
    train_weft16.py train    --work W --steps N [--minutes M]                          resumes from W/state.pt; W/model when N is reached

The text is cut into windows of 1024 tokens at a new offset every epoch, the windows shuffled. Matrices of the blocks take Muon steps (momentum,
orthogonalised by five Newton-Schulz iterations, scaled to the size of an AdamW step), embedding and norms AdamW; the learning rate
rises for 200 steps and falls along a cosine to zero. bf16 autocast, f32 master weights, rounded to bf16 once at the end.
"""

import argparse
import glob
import json
import lzma
import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

import weft16_model

END = "<|endoftext|>"
LENGTH, SEQUENCES, MICRO = 1024, 256, 128  # tokens a window, windows a step, windows a forward pass
PEAK, DECAY, WARMUP, SEED = 3e-3, 0.2, 200, 16


def train_tokenizer(texts, target):
    """A byte-level BPE of 8192 entries, as GPT-2 and Llama 3 have it; id 0 begins and ends a document."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=8192, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(target))


def tokenize(args):
    """Documents are parted by form feeds in the text files and by id 0 in the tokens."""
    from tokenizers import Tokenizer
    with ThreadPoolExecutor() as pool:  # lzma releases the interpreter lock
        parts = list(pool.map(lambda f: lzma.open(f, "rt", encoding="utf-8").read(), sorted(glob.glob(args.text))))
    documents = [d for part in parts for d in part.split("\f") if d]
    print(len(documents), "documents,", sum(map(len, documents)), "characters", flush=True)
    args.work.mkdir(parents=True, exist_ok=True)
    file = args.tokenizer or args.work / "tokenizer.json"
    if not file.exists():
        train_tokenizer(documents[::6], file)
    (args.work / "tokenizer.json").write_bytes(file.read_bytes())
    tokenizer = Tokenizer.from_file(str(file))
    ids = []
    for i in range(0, len(documents), 20000):
        for e in tokenizer.encode_batch_fast(documents[i:i + 20000], add_special_tokens=False):
            ids.append(np.array([0] + e.ids, dtype=np.uint16))
    np.concatenate(ids).tofile(args.work / "train.u16")
    print(sum(map(len, ids)), "tokens", flush=True)


class Windows:
    """Shuffled windows of LENGTH + 1 tokens; the same for a given seed and step wherever training was interrupted."""

    def __init__(self, file):
        self.tokens = torch.from_numpy(np.fromfile(file, dtype=np.uint16).astype(np.int16)).cuda()
        self.count = (len(self.tokens) - 2 * LENGTH) // LENGTH
        self.epoch = -1

    def batch(self, step):
        """The step's windows, (SEQUENCES, LENGTH + 1); an epoch's end may lie inside."""
        starts = torch.tensor([self.start(i) for i in range(step * SEQUENCES, (step + 1) * SEQUENCES)], device="cuda")
        return self.tokens[starts[:, None] + torch.arange(LENGTH + 1, device="cuda")].long()

    def start(self, index):
        if index // self.count != self.epoch:
            self.epoch = index // self.count
            generator = torch.Generator().manual_seed(SEED + self.epoch)
            self.offset = int(torch.randint(LENGTH, (1,), generator=generator))
            self.order = torch.randperm(self.count, generator=generator).tolist()
        return self.offset + self.order[index % self.count] * LENGTH


@torch.compile
def orthogonal(g):
    """The nearest orthogonal matrices, roughly: five quintic Newton-Schulz iterations on a batch of matrices."""
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.mul_(0.95).add_(p.grad)
                update = orthogonal(p.grad + 0.95 * momentum) * (0.2 * max(p.shape[-2:]) ** 0.5)
                p.mul_(1 - group["lr"] * DECAY).sub_(update, alpha=group["lr"])


def rate(step, steps):
    return min(1.0, (step + 1) / WARMUP) * 0.5 * (1 + math.cos(math.pi * step / steps))


def take_step(model, optimizers, batch, lr):
    """One optimizer step on a batch of windows; returns the mean loss before it, still on the device."""
    total = 0.0
    for micro in batch.split(MICRO):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(micro[:, :-1], targets=micro[:, 1:]) * (MICRO / SEQUENCES)
        loss.backward()
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_(optimizers[1].param_groups[0]["params"], 1.0)
    for optimizer in optimizers:
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return total


def restore(file, model, optimizers):
    """The step that the state file was saved at, 0 without one."""
    if not file.exists():
        return 0
    saved = torch.load(file)
    model.load_state_dict(saved["model"])
    for optimizer, state in zip(optimizers, saved["optimizers"]):
        optimizer.load_state_dict(state)
    return saved["step"]


def train(args):
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    model = weft16_model.Weft16().cuda()
    matrices = [getattr(model, kind) for kind in ("q", "k", "v", "o", "gate", "up", "down")]
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizers = [Muon(matrices, PEAK), torch.optim.AdamW(others, lr=PEAK, betas=(0.9, 0.95), weight_decay=0.0, fused=True)]
    step = first = restore(args.work / "state.pt", model, optimizers)
    model.block, model.head = torch.compile(model.block), torch.compile(model.head)  # one block compiled serves all sixteen
    windows, begin = Windows(args.work / "train.u16"), time.time()
    log = open(args.work / "log.jsonl", "a")
    while step < args.steps and time.time() - begin < 60 * args.minutes:
        loss = take_step(model, optimizers, windows.batch(step), PEAK * rate(step, args.steps))
        step += 1
        if step % 50 == 0 or step == args.steps:
            line = json.dumps({"step": step, "loss": round(float(loss), 4), "seconds": round(time.time() - begin, 1)})
            print(line, file=log, flush=True)
            if step % 250 == 0:
                print(line, flush=True)
    print(f"steps {first} to {step} of {args.steps} in {time.time() - begin:.0f} s, epochs {step * SEQUENCES / windows.count:.2f}", flush=True)
    torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step}, args.work / "state.pt")
    weft16_model.save(model, args.work / "model")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=["tokenize", "train"])
    parser.add_argument("--text")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--minutes", type=float, default=1e9)
    args = parser.parse_args()
    {"tokenize": tokenize, "train": train}[args.phase](args)


if __name__ == "__main__":
    main()
