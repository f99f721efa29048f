#!/usr/bin/env python3
"""One rank of the ledger's row "PyTorch, gloo": a Llama's prompt until its first token, in plain torch, float32.

Column-parallel, then row-parallel products, one all_reduce behind each pair, as Megatron splits a block; products of
the same rows are one (q, k and v; gate and up). `weft ledger --link shm` starts one of these beside each of its ranks
and talks to it by lines (weft/study/peers/torch_row.cc):

    it says                    this answers
    prompt 5 17 2              on rank 0: store PORT
    join PORT                  ready torch 2.13.0, or: cannot WHY
    run                        token T
    alone                      the same without collectives: token T, which means nothing

usage: PYTHON tools/ledger_torch.py MODEL RANK RANKS THREADS
"""

import json
import pathlib
import struct
import sys


def say(*words):
    print(*words, flush=True)


def leave(why):
    say("cannot", str(why).splitlines()[0] if str(why) else type(why).__name__)
    sys.exit()


try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
except ImportError as error:
    leave(error)

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def tensors_of(folder):
    """Every tensor of the model's safetensors files, by name, in float32."""
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = bytearray(path.read_bytes())
        (length,) = struct.unpack("<Q", data[:8])
        for name, entry in json.loads(data[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + at for at in entry["data_offsets"])
            dtype = DTYPES[entry["dtype"]]
            whole = torch.frombuffer(data, dtype=dtype, offset=begin, count=(end - begin) // dtype.itemsize)
            out[name] = whole.reshape(entry["shape"]).float()
    return out


class Block:
    def __init__(self, weights, prefix, config, rank, ranks):
        part = lambda name, dim: weights[f"{prefix}.{name}.weight"].chunk(ranks, dim)[rank]
        self.norms = [weights[f"{prefix}.{name}.weight"] for name in ("input_layernorm", "post_attention_layernorm")]
        self.qkv = torch.cat([part(f"self_attn.{x}_proj", 0) for x in "qkv"])
        self.gate_up = torch.cat([part(f"mlp.{x}_proj", 0) for x in ("gate", "up")])
        self.out = part("self_attn.o_proj", 1).contiguous()
        self.down = part("mlp.down_proj", 1).contiguous()
        self.heads = config["num_attention_heads"] // ranks
        self.kv_heads = config["num_key_value_heads"] // ranks
        self.eps = config["rms_norm_eps"]

    def forward(self, x, rope, summed):
        normed = F.rms_norm(x, x.shape[-1:], self.norms[0], self.eps)
        heads = F.linear(normed, self.qkv).view(x.shape[0], -1, rope[0].shape[-1]).transpose(0, 1)
        q, k, v = heads.split([self.heads, self.kv_heads, self.kv_heads])
        q, k = turned(q, rope), turned(k, rope)
        seen = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=len(q) > len(k))[0]
        x = x + summed(F.linear(seen.transpose(0, 1).reshape(x.shape[0], -1), self.out))
        normed = F.rms_norm(x, x.shape[-1:], self.norms[1], self.eps)
        gate, up = F.linear(normed, self.gate_up).chunk(2, -1)
        return x + summed(F.linear(F.silu(gate) * up, self.down))


def turned(x, rope):
    low, high = x.chunk(2, -1)
    return x * rope[0] + torch.cat([-high, low], -1) * rope[1]


class Model:
    def __init__(self, folder, rank, ranks):
        config = json.loads((folder / "config.json").read_text())
        odd = [key for key in ("rope_scaling", "attention_bias", "mlp_bias", "sliding_window") if config.get(key)]
        if config.get("model_type") != "llama" or odd:
            leave(f"it knows plain Llamas, and this is {config.get('model_type')} {' '.join(odd)}")
        for key in ("num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size"):
            if config[key] % ranks:
                leave(f"{key} is {config[key]}, which {ranks} ranks cannot share")
        weights = tensors_of(folder)
        self.embedding = weights["model.embed_tokens.weight"]
        head = self.embedding if config.get("tie_word_embeddings") else weights["lm_head.weight"]
        self.head, self.first = head.chunk(ranks)[rank], head.shape[0] // ranks * rank
        self.norm, self.eps = weights["model.norm.weight"], config["rms_norm_eps"]
        self.dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.theta = config.get("rope_theta", 10000.0)
        count = config["num_hidden_layers"]
        self.blocks = [Block(weights, f"model.layers.{i}", config, rank, ranks) for i in range(count)]

    def first_token(self, prompt, summed, largest):
        angles = torch.outer(torch.arange(len(prompt)), self.theta ** -(torch.arange(0, self.dim, 2) / self.dim))
        rope = [f(torch.cat([angles, angles], -1)) for f in (torch.cos, torch.sin)]
        x = self.embedding[prompt]
        for block in self.blocks:
            x = block.forward(x, rope, summed)
        value, at = F.linear(F.rms_norm(x[-1], x.shape[-1:], self.norm, self.eps), self.head).max(0)
        return largest(value, self.first + at)


def over_ranks(value, at):
    """Where the largest of all ranks' values is."""
    mine = torch.tensor([value.item(), float(at)])
    every = [torch.empty(2) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    return int(max(every, key=lambda pair: pair[0])[1])


def summed_over_ranks(x):
    dist.all_reduce(x)
    return x


def main(folder, rank, ranks, threads):
    torch.set_num_threads(threads)
    prompt = torch.tensor([int(word) for word in sys.stdin.readline().split()[1:]])
    store = dist.TCPStore("127.0.0.1", 0, ranks, True, wait_for_workers=False) if rank == 0 else None
    if store:
        say("store", store.port)
    port = int(sys.stdin.readline().split()[1])
    store = store or dist.TCPStore("127.0.0.1", port, ranks, False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    model = Model(pathlib.Path(folder), rank, ranks)
    say("ready torch", torch.__version__.split("+")[0])
    with torch.inference_mode():
        for line in sys.stdin:
            if line.strip() == "run":
                say("token", model.first_token(prompt, summed_over_ranks, over_ranks))
            else:
                say("token", model.first_token(prompt, lambda x: x, lambda _, at: int(at)))
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main(sys.argv[1], *map(int, sys.argv[2:5]))
    except (RuntimeError, KeyError, ValueError, OSError) as error:
        leave(error)
