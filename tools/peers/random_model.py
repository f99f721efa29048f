#!/usr/bin/env python3
"""Writes a Llama folder of random weights (bf16 safetensors), to measure speed where no trained model is at hand.

Tokens are those of --tokenizer (a folder with tokenizer.json), filled up to the vocabulary with words that no text
holds, so that programs which insist on a whole vocabulary (llama.cpp, distributed-llama) open the model too.

usage: tools/peers/random_model.py 134m|1.1b|1.2b OUT_FOLDER [--tokenizer models/weft-16]
"""

import argparse
import json
import pathlib
import shutil

import numpy

SHAPES = {  # hidden, intermediate, blocks, heads, kv heads, vocabulary, whether the head is the embedding
    "134m": (576, 1536, 30, 9, 3, 49152, True),
    "1.1b": (2048, 5632, 22, 32, 4, 32000, False),
    "1.2b": (2048, 8192, 16, 32, 8, 128256, True),
}


def config_of(shape):
    hidden, intermediate, blocks, heads, kv_heads, vocab, tied = shape
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden,
            "intermediate_size": intermediate, "num_hidden_layers": blocks, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": hidden // heads, "hidden_act": "silu",
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": tied, "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "bfloat16"}


def tensors_of(shape):
    """Name and shape of every tensor, in the file's order."""
    hidden, intermediate, blocks, heads, kv_heads, vocab, tied = shape
    kv = hidden // heads * kv_heads
    out = [("model.embed_tokens.weight", (vocab, hidden))]
    for block in range(blocks):
        at = f"model.layers.{block}."
        out += [(at + "input_layernorm.weight", (hidden,)), (at + "post_attention_layernorm.weight", (hidden,)),
                (at + "self_attn.q_proj.weight", (hidden, hidden)), (at + "self_attn.k_proj.weight", (kv, hidden)),
                (at + "self_attn.v_proj.weight", (kv, hidden)), (at + "self_attn.o_proj.weight", (hidden, hidden)),
                (at + "mlp.gate_proj.weight", (intermediate, hidden)), (at + "mlp.up_proj.weight", (intermediate, hidden)),
                (at + "mlp.down_proj.weight", (hidden, intermediate))]
    out.append(("model.norm.weight", (hidden,)))
    return out if tied else out + [("lm_head.weight", (vocab, hidden))]


def values_of(draw, shape):
    """bf16 as its 16 bits: norms are one, the rest is normal with the deviation 0.02."""
    wide = numpy.ones(shape, numpy.float32) if len(shape) == 1 else draw.standard_normal(shape, numpy.float32) * 0.02
    return (wide.view(numpy.uint32) >> 16).astype(numpy.uint16)


def write_tensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        size = 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    draw = numpy.random.default_rng(7)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape in tensors:
            file.write(values_of(draw, shape).tobytes())


def write_tokenizer(folder, source, vocab):
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    taken = set(words.values()) | {token["id"] for token in tokenizer["added_tokens"]}
    words.update({f"<filler {id}>": id for id in range(vocab) if id not in taken})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(source / "tokenizer_config.json", folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path,
                        default=pathlib.Path(__file__).parents[2] / "models" / "weft-16")
    options = parser.parse_args()
    shape = SHAPES[options.shape]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "config.json").write_text(json.dumps(config_of(shape), indent=1))
    write_tokenizer(options.out, options.tokenizer, shape[5])
    write_tensors(options.out / "model.safetensors", tensors_of(shape))
    print(f"{options.out}: {sum(int(numpy.prod(s)) for _, s in tensors_of(shape)) / 1e6:.0f} million weights")


if __name__ == "__main__":
    main()
