"""The PyTorch model behind models/weft-16: a Llama written out, with its blocks stacked, and its Hugging Face files.

The equations are those of transformers' LlamaForCausalLM (RMSNorm, rotary positions in the half-split layout, SwiGLU, tied
head); tools/golden_logits.py checks that on the finished model. Weights of all blocks lie in one tensor per kind, (blocks, out, in), so that
one optimizer call serves them all. `dropped` runs a block as sync-point drop does, for the first look at sensitivity.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 8192, "hidden_size": 256,
    "intermediate_size": 768, "num_hidden_layers": 16, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32,
    "hidden_act": "silu", "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None,
    "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": True, "bos_token_id": 0,
    "eos_token_id": 0, "pad_token_id": None, "initializer_range": 0.02, "torch_dtype": "bfloat16", "use_cache": True,
}
SHARD_BLOCKS = 6  # blocks per file: three files, each under 16 MiB


class Weft16(torch.nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = c = dict(config or CONFIG)
        blocks, d, f = c["num_hidden_layers"], c["hidden_size"], c["intermediate_size"]

        def normal(*shape, scale=1.0):
            return torch.nn.Parameter(torch.randn(*shape) * c["initializer_range"] * scale)

        out = (2 * blocks) ** -0.5  # what is added to the residual 2 * blocks times starts smaller
        self.embed = normal(c["vocab_size"], d)
        self.q, self.k, self.v = normal(blocks, d, d), normal(blocks, d, d), normal(blocks, d, d)
        self.o, self.down = normal(blocks, d, d, scale=out), normal(blocks, d, f, scale=out)
        self.gate, self.up = normal(blocks, f, d), normal(blocks, f, d)
        self.attention_norm, self.mlp_norm = (torch.nn.Parameter(torch.ones(blocks, d)) for _ in range(2))
        self.final_norm = torch.nn.Parameter(torch.ones(d))

    def norm(self, x, weight):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"])).type_as(x) * weight.type_as(x)

    def rotary(self, length, device):
        half = self.config["head_dim"] // 2
        rate = self.config["rope_theta"] ** (-torch.arange(half, device=device).float() / half)
        angle = torch.arange(length, device=device).float()[:, None] * rate  # (length, half)
        return angle.cos(), angle.sin()

    def attention(self, x, w, cos, sin):
        """The heads' outputs side by side, before the output projection. x is normed, (batch, length, d)."""
        b, t, _ = x.shape
        q, k, v = F.linear(x, torch.cat([w["q"], w["k"], w["v"]])).view(b, t, 3, -1, self.config["head_dim"]).permute(2, 0, 3, 1, 4)

        def turn(y):
            first, second = y.float().chunk(2, -1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).type_as(y)

        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
        return y.transpose(1, 2).reshape(b, t, -1)  # (batch, length, d)

    def block(self, x, w, cos, sin):
        x = x + F.linear(self.attention(self.norm(x, w["attention_norm"]), w, cos, sin), w["o"])
        gate, up = F.linear(self.norm(x, w["mlp_norm"]), torch.cat([w["gate"], w["up"]])).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, w["down"])

    def dropped(self, x, w, cos, sin, ranks):
        """The block without the first all-reduce: the MLP of rank i reads norm(x + Y_i), its own partial sum only."""
        heads = self.attention(self.norm(x, w["attention_norm"]), w, cos, sin).chunk(ranks, -1)
        total = x
        shards = zip(heads, w["o"].chunk(ranks, 1), w["gate"].chunk(ranks), w["up"].chunk(ranks), w["down"].chunk(ranks, 1))
        for head, o, gate, up, down in shards:
            partial = F.linear(head, o)
            y = self.norm(x + partial, w["mlp_norm"])
            total = total + partial + F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)
        return total

    KINDS = ("q", "k", "v", "o", "gate", "up", "down", "attention_norm", "mlp_norm")

    def head(self, x, norm, embed, targets=None):
        logits = F.linear(self.norm(x, norm), embed)
        return logits if targets is None else F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def forward(self, ids, targets=None, dropped=(), ranks=1):
        """Logits (batch, length, vocabulary), or the mean loss on `targets`; blocks in `dropped` run as `ranks` ranks without their first all-reduce."""
        x = F.embedding(ids, self.embed)
        if torch.is_autocast_enabled():
            x = x.bfloat16()
        cos, sin = self.rotary(ids.shape[1], ids.device)
        for i, weights in enumerate(zip(*(getattr(self, kind).unbind() for kind in self.KINDS))):
            w = dict(zip(self.KINDS, weights))
            x = self.dropped(x, w, cos, sin, ranks) if i in dropped else self.block(x, w, cos, sin)
        return self.head(x, self.final_norm, self.embed, targets)


NAMES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj", "gate": "mlp.gate_proj",
         "up": "mlp.up_proj", "down": "mlp.down_proj", "attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}


def save(model, folder):
    """Writes config.json, the bf16 shards and their index."""
    from safetensors.torch import save_file
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    blocks = model.config["num_hidden_layers"]
    shards = [{} for _ in range(-(-blocks // SHARD_BLOCKS))]
    shards[0]["model.embed_tokens.weight"] = model.embed
    for i in range(blocks):
        for kind, name in NAMES.items():
            shards[i // SHARD_BLOCKS][f"model.layers.{i}.{name}.weight"] = getattr(model, kind)[i]
    shards[-1]["model.norm.weight"] = model.final_norm
    where, total = {}, 0
    for n, shard in enumerate(shards, 1):
        file = f"model-{n:05}-of-{len(shards):05}.safetensors"
        tensors = {k: v.detach().bfloat16().cpu().clone().contiguous() for k, v in shard.items()}
        save_file(tensors, folder / file, metadata={"format": "pt"})
        where |= dict.fromkeys(tensors, file)
        total += sum(t.numel() * 2 for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    (folder / "config.json").write_text(json.dumps(model.config, indent=2) + "\n")


def load(folder):
    """The model of a folder that `save` wrote, in f32."""
    from safetensors.torch import load_file
    folder = Path(folder)
    model = Weft16(json.loads((folder / "config.json").read_text()))
    tensors = {}
    for file in sorted(folder.glob("model-*.safetensors")):
        tensors |= load_file(file)
    with torch.no_grad():
        model.embed.copy_(tensors["model.embed_tokens.weight"])
        model.final_norm.copy_(tensors["model.norm.weight"])
        for kind, name in NAMES.items():
            for i in range(model.config["num_hidden_layers"]):
                getattr(model, kind)[i].copy_(tensors[f"model.layers.{i}.{name}.weight"])
    return model
