"""GGUF files as llama.cpp's own converter writes them, of small random models, with the logits of transformers.

    golden_gguf_models.py LLAMA_CPP [NAME..]    writes tests/gguf/models/NAME/: model.gguf (or its parts) and golden/

LLAMA_CPP is a checkout of llama.cpp with convert_hf_to_gguf.py. Needs torch, transformers, numpy and safetensors. Weights are bf16, so
file and folder have the same values. Models have what a file can say and no more: no windows of Qwen, Gemma's scores divided by
the root of a head's columns. There are no tokenizers in them.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from golden_logits import write_golden

SMALL = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "max_position_embeddings": 64, "bos_token_id": 1,
         "eos_token_id": 2, "pad_token_id": 0}
CONFIGS = {
    # two rows that turn side by side, rates divided by a tensor; written as three files
    "llama": transformers.LlamaConfig(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 16}),
    # a head size of its own, no window
    "mistral": transformers.MistralConfig(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=None, tie_word_embeddings=False),
    "qwen2": transformers.Qwen2Config(**SMALL, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=False,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}),
    "gemma2": transformers.Gemma2Config(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=16, query_pre_attn_scalar=16, sliding_window=6,
        attn_logit_softcapping=4.0, final_logit_softcapping=5.0),
    # six blocks: the last of them sees everything
    "gemma3": transformers.Gemma3TextConfig(
        **{**SMALL, "num_hidden_layers": 6}, num_attention_heads=2, num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16,
        sliding_window=6, rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                           "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0}}),
    "phi3": transformers.Phi3Config(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, original_max_position_embeddings=16, sliding_window=20,
        rope_parameters={"rope_type": "longrope", "rope_theta": 1000.0, "partial_rotary_factor": 0.5, "short_factor": [1.0, 1.25],
                         "long_factor": [1.5, 4.0], "original_max_position_embeddings": 16}),
    "olmo2": transformers.Olmo2Config(**SMALL, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False),
    "granite": transformers.GraniteConfig(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, embedding_multiplier=12.0, residual_multiplier=0.22,
        attention_multiplier=0.4, logits_scaling=3.0, tie_word_embeddings=True),
    # four blocks: the last has no positions
    "smollm3": transformers.SmolLM3Config(
        **{**SMALL, "num_hidden_layers": 4}, num_attention_heads=4, num_key_value_heads=2, no_rope_layer_interval=4, use_sliding_window=False),
    "gpt2": transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2),
    "neox": transformers.GPTNeoXConfig(
        **SMALL, num_attention_heads=2, hidden_act="gelu", use_parallel_residual=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}),
}


def random_model(config, folder):
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() == 1:
                p.copy_(torch.randn_like(p) * 0.3 + (1.0 if ("norm" in key or "ln_" in key) and key.endswith("weight") else 0.0))
            else:
                p.mul_(8.0)
    model.to(torch.bfloat16).save_pretrained(folder)
    # keys of older files that the converter asks for, and a vocabulary for Gemma 3, whose embedding it cuts to that
    path = folder / "config.json"
    text = json.loads(path.read_text())
    if text["model_type"] == "gpt2":
        text["n_ctx"] = text["n_positions"]
    path.write_text(json.dumps(text))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(96)}}, "added_tokens": []}))


def convert(llama_cpp, folder, out, parts):
    sys.path[:0] = [str(llama_cpp), str(llama_cpp / "gguf-py")]
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    import gguf
    hparams = ModelBase.load_hparams(folder, False)
    if hparams["model_type"] == "gpt_neox":  # a key of older files that the converter asks for
        hparams["rotary_pct"] = hparams["rope_parameters"]["partial_rotary_factor"]
    kind = get_model_class(get_model_architecture(hparams, ModelType.TEXT))
    kind.set_vocab = lambda self: None
    with torch.inference_mode():
        model = kind(folder, gguf.LlamaFileType.MOSTLY_BF16, out / "model.gguf", model_name="golden", hparams=hparams, split_max_tensors=8 if parts else 0)
        model.write()


def main():
    torch.set_num_threads(1)
    llama_cpp, names = Path(sys.argv[1]), sys.argv[2:]
    root = Path(__file__).parent.parent / "tests" / "gguf" / "models"
    for name, config in CONFIGS.items():
        if names and name not in names:
            continue
        out = root / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            random_model(config, folder)
            generator = np.random.default_rng(16)
            write_golden(folder, [generator.integers(3, 96, size).tolist() for size in (1, 9, 24)], full_rows=True)
            shutil.copytree(folder / "golden", out / "golden")
            convert(llama_cpp, folder, out, parts=name == "llama")


if __name__ == "__main__":
    main()
