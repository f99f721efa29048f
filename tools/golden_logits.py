"""Golden logits from Hugging Face transformers: of models/weft-16, and of small random models that cover what it does not.

    golden_logits.py model models/weft-16          writes models/weft-16/golden/
    golden_logits.py random tests/models           writes four folders with config.json, safetensors, golden/

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
             "prompts": entries}
    text = json.dumps(about, indent=1)
    (golden / "golden.json").write_text(join_rows(text) + "\n")


def join_rows(text):
    """Arrays of numbers on one line each."""
    import re
    return re.sub(r"\[[\s\d.,e+-]+\]", lambda m: "[" + ", ".join(m.group()[1:-1].replace(",", " ").split()) + "]", text)


def random_models(root):
    for name, (dtype, config) in CONFIGS.items():
        torch.manual_seed(len(name))
        model = transformers.AutoModelForCausalLM.from_config(config)
        with torch.no_grad():
            for key, p in model.named_parameters():  # norms and biases that matter: drawn, not the ones and zeros of a fresh model
                if p.dim() == 1:
                    p.copy_(torch.randn_like(p) * 0.3 + (1.0 if "norm" in key and key.endswith("weight") else 0.0))
                else:
                    p.mul_(8.0)
        model.to(getattr(torch, dtype)).save_pretrained(root / name, max_shard_size="150KB" if name == "mistral-window" else "1GB")
        (root / name / "generation_config.json").unlink(missing_ok=True)
        generator = np.random.default_rng(16)
        prompts = [generator.integers(3, config.vocab_size, size).tolist() for size in (1, 9, 40)]
        write_golden(root / name, prompts, full_rows=True)


def main():
    torch.set_num_threads(1)
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "random":
        random_models(folder)
    else:
        from tokenizers import Tokenizer
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        write_golden(folder, [tokenizer.encode(p).ids for p in PROMPTS], full_rows=False)


if __name__ == "__main__":
    main()
