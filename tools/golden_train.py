#!/usr/bin/env python3
"""The losses of weft/pipeline/golden_losses_test.h, from PyTorch; and the time of a training step there.

A second implementation of the whole: first weights, samples, model, loss, clipping, AdamW and learning rate follow the
descriptions in weft/nn/gpt.h, weft/pipeline/token_data.h and weft/nn/adamw.h, and share no code with them.

usage: golden_train.py              prints the losses of 20 steps of the small model of small_training_test.h
       golden_train.py --time       milliseconds of a step of bench/train_10m.json's model, on 2 threads
Needs torch (CPU) and numpy; for example in a virtual environment outside of the tree.
"""

import argparse
import math
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F

MASK = (1 << 64) - 1


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def mix_array(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def first_values(name, shape, seed, layers, ends_block):
    if len(shape) == 1:
        return torch.ones(shape)
    name_hash = 0xCBF29CE484222325
    for c in name.encode():
        name_hash = ((name_hash ^ c) * 0x100000001B3) & MASK
    key = mix((name_hash + seed * 0x9E3779B97F4A7C15) & MASK)
    width = 0.02 * math.sqrt(3) / (math.sqrt(2 * layers) if ends_block else 1)
    with np.errstate(over="ignore"):
        bits = mix_array(np.uint64(key) + np.arange(math.prod(shape), dtype=np.uint64))
    even = (bits >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1
    return torch.from_numpy((even * width).astype(np.float32)).reshape(shape)


class Gpt(torch.nn.Module):
    def __init__(self, vocab, hidden, layers, heads, mlp, sequence, seed=1):
        super().__init__()
        self.hidden, self.layers, self.heads, self.head_dim = hidden, layers, heads, hidden // heads
        self.weights = torch.nn.ParameterDict()
        parts = {"input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
                 "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (hidden, hidden),
                 "self_attn.v_proj": (hidden, hidden), "self_attn.o_proj": (hidden, hidden),
                 "mlp.gate_proj": (mlp, hidden), "mlp.up_proj": (mlp, hidden), "mlp.down_proj": (hidden, mlp)}
        self.add("model.embed_tokens.weight", (vocab, hidden), seed)
        for layer in range(layers):
            for part, shape in parts.items():
                self.add(f"model.layers.{layer}.{part}.weight", shape, seed)
        self.add("model.norm.weight", (hidden,), seed)
        self.add("lm_head.weight", (vocab, hidden), seed)
        rates = 10000.0 ** (-2.0 * torch.arange(self.head_dim // 2, dtype=torch.float64) / self.head_dim)
        angles = torch.outer(torch.arange(sequence, dtype=torch.float64), rates)
        self.cos, self.sin = angles.cos().float().repeat(1, 2), angles.sin().float().repeat(1, 2)

    def add(self, name, shape, seed):
        ends = name.endswith(("o_proj.weight", "down_proj.weight"))
        self.weights[name.replace(".", "/")] = torch.nn.Parameter(first_values(name, shape, seed, self.layers, ends))

    def get(self, name):
        return self.weights[(name + ".weight").replace(".", "/")]

    def rotate(self, x):
        half = self.head_dim // 2
        return x * self.cos + torch.cat((-x[..., half:], x[..., :half]), -1) * self.sin

    def forward(self, tokens):
        rms = lambda x, name: F.rms_norm(x, (self.hidden,), self.get(name), 1e-5)
        x = F.embedding(tokens, self.get("model.embed_tokens"))
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            a = rms(x, at + "input_layernorm")
            q, k, v = (F.linear(a, self.get(at + f"self_attn.{p}_proj")).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                       for p in "qkv")
            o = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=True)
            x = x + F.linear(o.transpose(1, 2).flatten(-2), self.get(at + "self_attn.o_proj"))
            b = rms(x, at + "post_attention_layernorm")
            h = F.silu(F.linear(b, self.get(at + "mlp.gate_proj"))) * F.linear(b, self.get(at + "mlp.up_proj"))
            x = x + F.linear(h, self.get(at + "mlp.down_proj"))
        return F.linear(rms(x, "model.norm"), self.get("lm_head"))


def sample(tokens, index, sequence, seed):
    step = lambda z: mix((z + 0x9E3779B97F4A7C15) & MASK)
    offset = step((step(seed) + index) & MASK) % (len(tokens) - sequence)
    return tokens[offset:offset + sequence], tokens[offset + 1:offset + sequence + 1]


def rate_at(step, peak, warm_up, steps, last):
    if step < warm_up:
        return peak * (step + 1) / warm_up
    done = (step - warm_up) / (steps - warm_up)
    return peak * (last + (1 - last) * 0.5 * (1 + math.cos(math.pi * min(done, 1))))


def small_text(vocab, count=4000):
    tokens = [1, 2]
    while len(tokens) < count:
        tokens.append((tokens[-1] * 7 + tokens[-2] * 3 + (1 if len(tokens) % 5 == 0 else 0)) % vocab)
    return tokens


def one_step(model, optimiser, inputs, targets, clip=1.0):
    optimiser.zero_grad()
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimiser.step()
    return loss.item()


def optimiser_of(model, lr):
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


def golden():
    steps, batch, sequence, vocab = 20, 8, 12, 61
    model = Gpt(vocab=vocab, hidden=32, layers=4, heads=4, mlp=48, sequence=sequence)
    optimiser, tokens = optimiser_of(model, 3e-3), small_text(vocab)
    for step in range(steps):
        pairs = [sample(tokens, step * batch + i, sequence, 1) for i in range(batch)]
        inputs, targets = (torch.tensor([pair[i] for pair in pairs]) for i in (0, 1))
        optimiser.param_groups[0]["lr"] = rate_at(step, 3e-3, 2, steps, 0.1)
        print(f"{one_step(model, optimiser, inputs, targets):.7f},")


def timed(rounds):
    torch.set_num_threads(2)
    model = Gpt(vocab=8192, hidden=256, layers=7, heads=8, mlp=768, sequence=256)
    print(sum(p.numel() for p in model.parameters()), "parameters")
    optimiser = optimiser_of(model, 1e-3)
    inputs, targets = (torch.randint(0, 8192, (8, 256)) for _ in range(2))
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        one_step(model, optimiser, inputs, targets)
        times.append(1e3 * (time.perf_counter() - begin))
    print(f"torch {torch.__version__}: {statistics.median(times[1:]):.1f} ms per step (median of {rounds - 1})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    timed(arguments.rounds) if arguments.time else golden()
