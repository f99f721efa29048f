"""Reads a model folder with numpy alone and compares its logits with the stored golden ones; an implementation independent of PyTorch.

    check_golden.py models/weft-16 tests/models/*/

Prints the largest difference of each folder, relative to its largest logit; exits 1 when one is over 1e-4.
"""

import json
import sys
from pathlib import Path

import numpy as np


def read_tensors(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        data = file.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                raw = data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
                tensors[name] = widen(raw, entry["dtype"]).reshape(entry["shape"])
    return tensors


def widen(raw, dtype):
    if dtype == "BF16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(raw, {"F16": np.float16, "F32": np.float32}[dtype]).astype(np.float64)


def rotary(config, positions, size):
    """(positions, size / 2) angles, with Llama 3 scaling where the config has it."""
    rope = config.get("rope_parameters") or {"rope_theta": config["rope_theta"], "rope_type": "default"}
    rate = rope["rope_theta"] ** (-np.arange(size // 2) * 2.0 / size)
    if rope["rope_type"] == "llama3":
        low, high, old = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
        smooth = np.clip((old * rate / (2 * np.pi) - low) / (high - low), 0, 1)
        rate = (1 - smooth) * rate / rope["factor"] + smooth * rate
    return np.arange(positions)[:, None] * rate


def attend(q, k, v, window):
    """Causal attention of (positions, heads, size) arrays; fewer key heads than query heads are shared by neighbours."""
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], axis=1) for a in (k, v))
    scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(q.shape[2])
    t, s = np.indices(scores.shape[1:])
    scores[:, (s > t) | (s <= t - window)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hts,shd->thd", weights / weights.sum(-1, keepdims=True), v).reshape(len(q), -1)


def llama(config, tensors, ids):
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    angle = rotary(config, len(ids), size)[:, None, :]

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * tensors[name + ".weight"]

    def turn(x):
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)

    x = tensors["model.embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        w = {n: tensors[f"model.layers.{i}.{n}_proj.weight"].T for n in ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down")}
        y = norm(x, f"model.layers.{i}.input_layernorm")
        q, k, v = ((y @ w["self_attn." + n]).reshape(len(ids), -1, size) for n in "qkv")
        x = x + attend(turn(q), turn(k), v, config.get("sliding_window") or 10**9) @ w["self_attn.o"]
        y = norm(x, f"model.layers.{i}.post_attention_layernorm")
        gate = y @ w["mlp.gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w["mlp.up"])) @ w["mlp.down"]
    return norm(x, "model.norm") @ tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"]).T


def opt(config, tensors, ids):
    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * tensors[name + ".weight"] + tensors[name + ".bias"]

    def linear(x, name):
        return x @ tensors[name + ".weight"].T + tensors[name + ".bias"]

    root = "model.decoder."
    x = tensors[root + "embed_tokens.weight"][ids] + tensors[root + "embed_positions.weight"][np.arange(len(ids)) + 2]
    for i in range(config["num_hidden_layers"]):
        here = f"{root}layers.{i}."
        y = norm(x, here + "self_attn_layer_norm")
        q, k, v = (linear(y, f"{here}self_attn.{n}_proj").reshape(len(ids), config["num_attention_heads"], -1) for n in "qkv")
        x = x + linear(attend(q, k, v, 10**9), here + "self_attn.out_proj")
        x = x + linear(np.maximum(linear(norm(x, here + "final_layer_norm"), here + "fc1"), 0), here + "fc2")
    return norm(x, root + "final_layer_norm") @ tensors[root + "embed_tokens.weight"].T


def difference(folder):
    config = json.loads((folder / "config.json").read_text())
    tensors, worst = read_tensors(folder), 0.0
    for n, prompt in enumerate(json.loads((folder / "golden" / "golden.json").read_text())["prompts"]):
        logits = (opt if config["model_type"] == "opt" else llama)(config, tensors, np.array(prompt["ids"]))
        rows = np.load(folder / "golden" / f"rows-{n}.npy")
        worst = max(worst, float(np.abs(logits[-len(rows):] - rows).max() / np.abs(rows).max()))
        top = np.take_along_axis(logits, np.array(prompt["top5_ids"]), axis=1)
        worst = max(worst, float(np.abs(top - prompt["top5"]).max() / np.abs(rows).max()))
    return worst


def main():
    worst = {folder: difference(Path(folder)) for folder in sys.argv[1:]}
    for folder, value in worst.items():
        print(f"{folder}: {value:.1e}")
    sys.exit(max(worst.values()) > 1e-4)


if __name__ == "__main__":
    main()
