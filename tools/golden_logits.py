"""Golden logits from Hugging Face transformers: of models/weft-16, and of small random models that cover what it does not.

    golden_logits.py model models/weft-16          writes models/weft-16/golden/
    golden_logits.py random tests/models [NAME..]  writes a folder per family with config.json, safetensors, golden/

Weights are read as stored and computed with in f32 on one CPU thread. golden.json: for each prompt its ids and, for every position, the five largest
logits, their ids and the row's log-sum-exp. rows-N.npy: f32 logits of prompt N, (positions, vocabulary); for the large vocabulary of weft-16 all
positions of prompt 0 and the last position of the others.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

PROMPTS = ("The Linux kernel is", "To install the package, run the following command as root and then restart the",
           "<|endoftext|>In this chapter we describe how the memory of a process is laid out, and why a page that has not been written to")
SMALL = {"vocab_size": 160, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3, "max_position_embeddings": 64, "bos_token_id": 1,
         "eos_token_id": 2, "pad_token_id": 0}
CONFIGS = {
    # Llama 3 style: grouped-query attention with 3 query heads a group, scaled rotary positions, tied head, bf16
    "llama-gqa": ("bfloat16", transformers.LlamaConfig(
        vocab_size=256, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        max_position_embeddings=256, rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64})),
    # Llama 2 style: every head its own keys, untied head, sizes that few rank counts divide, f16
    "llama-untied": ("float16", transformers.LlamaConfig(
        vocab_size=259, hidden_size=80, intermediate_size=216, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=5,
        max_position_embeddings=128, rms_norm_eps=1e-6, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)),
    # Mistral style: a head size that is not hidden / heads, sliding window shorter than the longest prompt, untied head, bf16, two files
    "mistral-window": ("bfloat16", transformers.MistralConfig(
        vocab_size=256, hidden_size=64, intermediate_size=176, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=4,
        head_dim=16, max_position_embeddings=256, sliding_window=16, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=1,
        eos_token_id=2)),
    # OPT: biases everywhere, learned positions with their offset of 2, ReLU, LayerNorm before, tied head, f32
    "opt-bias": ("float32", transformers.OPTConfig(
        vocab_size=256, hidden_size=64, ffn_dim=160, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=96,
        do_layer_norm_before=True, word_embed_proj_dim=64, bos_token_id=2, eos_token_id=2, pad_token_id=1)),
    # Qwen2: biases of q, k and v alone
    "qwen2": ("bfloat16", transformers.Qwen2Config(
        **SMALL, num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-6)),
    # Qwen3: a norm per head of q and k, a head size of its own, yarn, a window from the second block on
    "qwen3": ("bfloat16", transformers.Qwen3Config(
        **SMALL, num_attention_heads=5, num_key_value_heads=5, head_dim=16, tie_word_embeddings=False,
        use_sliding_window=True, sliding_window=7, max_window_layers=1,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 32})),
    # Gemma 2: norms before and behind, soft caps, scaled embeddings, tanh gelu, every other block with a window
    "gemma2": ("bfloat16", transformers.Gemma2Config(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=24, sliding_window=6,
        attn_logit_softcapping=4.0, final_logit_softcapping=5.0)),
    # Gemma 3: q/k norms, two rotary bases, one of them scaled, windows in two of three blocks
    "gemma3": ("bfloat16", transformers.Gemma3TextConfig(
        **SMALL, num_attention_heads=4, num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                         "full_attention": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 8.0}})),
    # Phi-3: fused tensors, half of a head's columns turn, longrope whose long factors begin at 17 tokens
    "phi3": ("bfloat16", transformers.Phi3Config(
        **SMALL, num_attention_heads=6, num_key_value_heads=3, original_max_position_embeddings=16, sliding_window=20,
        rope_parameters={"rope_type": "longrope", "rope_theta": 1000.0, "partial_rotary_factor": 0.5,
                         "short_factor": [1.0, 1.25], "long_factor": [1.5, 4.0]})),
    # OLMo 2: norms behind alone, q and k normed over all heads, keys shared by three heads
    "olmo2": ("bfloat16", transformers.Olmo2Config(
        **SMALL, num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=False)),
    # Granite: four multipliers
    "granite": ("bfloat16", transformers.GraniteConfig(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, embedding_multiplier=12.0, residual_multiplier=0.22,
        attention_multiplier=0.4, logits_scaling=3.0, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    # SmolLM 3: every second block without positions
    "smollm3": ("bfloat16", transformers.SmolLM3Config(
        **SMALL, num_attention_heads=6, num_key_value_heads=3, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=9)),
    # GPT-2: q, k and v in one tensor, weights (in, out), learned positions from 0 on, tanh gelu
    "gpt2": ("float16", transformers.GPT2Config(
        vocab_size=160, n_embd=48, n_layer=3, n_head=6, n_inner=72, n_positions=64, bos_token_id=1, eos_token_id=2)),
    # GPT-NeoX: parallel blocks, q, k and v head by head, a quarter of a head turns, exact gelu
    "neox": ("float32", transformers.GPTNeoXConfig(
        **SMALL, num_attention_heads=3, hidden_act="gelu", use_parallel_residual=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25})),
    # and the same without parallel blocks, tied, without biases of attention
    "neox-serial": ("bfloat16", transformers.GPTNeoXConfig(
        **SMALL, num_attention_heads=6, hidden_act="gelu", use_parallel_residual=False, attention_bias=False,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5})),
}


def write_golden(folder, prompts, full_rows):
    """Logits of each prompt's positions; all rows are stored where `full_rows`, else of prompt 0 and the others' last."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    golden = folder / "golden"
    golden.mkdir(exist_ok=True)
    entries = []
    for n, ids in enumerate(prompts):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].float()  # (positions, vocabulary)
        top = logits.topk(5)
        entries.append({"ids": ids, "top5_ids": top.indices.tolist(), "top5": [[round(v, 6) for v in row] for row in top.values.tolist()],
                        "logsumexp": [round(v, 6) for v in logits.logsumexp(-1).tolist()]})
        np.save(golden / f"rows-{n}.npy", (logits if full_rows or n == 0 else logits[-1:]).numpy())
    about = {"made_by": "tools/golden_logits.py", "transformers": transformers.__version__, "torch": torch.__version__, "dtype": "float32",
             "parameters": model.num_parameters(), "prompts": entries}
    text = json.dumps(about, indent=1)
    (golden / "golden.json").write_text(join_rows(text) + "\n")


def join_rows(text):
    """Arrays of numbers on one line each."""
    import re
    return re.sub(r"\[[\s\d.,e+-]+\]", lambda m: "[" + ", ".join(m.group()[1:-1].replace(",", " ").split()) + "]", text)


def random_models(root, names):
    for name, (dtype, config) in CONFIGS.items():
        if names and name not in names:
            continue
        torch.manual_seed(len(name))
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for key, p in model.named_parameters():  # norms and biases that matter: drawn, not the ones and zeros of a fresh model
                if p.dim() == 1:
                    p.copy_(torch.randn_like(p) * 0.3 + (1.0 if ("norm" in key or "ln_" in key) and key.endswith("weight") else 0.0))
                else:
                    p.mul_(8.0)
        model.to(getattr(torch, dtype)).save_pretrained(root / name, max_shard_size="150KB" if name == "mistral-window" else "1GB")
        (root / name / "generation_config.json").unlink(missing_ok=True)
        generator = np.random.default_rng(16)
        sizes = (1, 9, 40) if config.vocab_size > 200 else (1, 9, 24)
        prompts = [generator.integers(3, config.vocab_size, size).tolist() for size in sizes]
        write_golden(root / name, prompts, full_rows=True)


def main():
    torch.set_num_threads(1)
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "random":
        random_models(folder, sys.argv[3:])
    else:
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        write_golden(folder, [tokenizer.encode(p).ids for p in PROMPTS], full_rows=False)


if __name__ == "__main__":
    main()
