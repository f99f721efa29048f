"""A model of Hugging Face transformers on several ranks, its collectives over Weft: the model's code does not change.

    pip install transformers accelerate
    torchrun --standalone --nproc-per-node 2 python/examples/07_serve_transformers.py [MODEL] [PROMPT ...]

MODEL is a folder or a name that from_pretrained knows; models/weft-16 unless given. With cpu:gloo instead of cpu:weft,
and without weft.fuse, the same program runs without Weft.
"""

import pathlib
import sys
import time

import torch
import torch.distributed as dist
import transformers

import weft

OURS = pathlib.Path(__file__).parents[2] / "models" / "weft-16"


def answer(model, tokenizer, prompt, tokens):
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    start = time.perf_counter()
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False, pad_token_id=0)
    count = made.shape[1] - ids.shape[1]
    return tokenizer.decode(made[0, ids.shape[1] :]), (time.perf_counter() - start) / max(count, 1)


def main():
    path, *prompts = sys.argv[1:] or [str(OURS)]
    dist.init_process_group("cpu:weft")
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, tp_plan="auto").eval()
    weft.fuse(model)  # each split layer is one op
    for prompt in prompts or ["The package manager", "To list all files"]:
        text, seconds = answer(model, tokenizer, prompt, tokens=24)
        if dist.get_rank() == 0:
            print(f"{prompt}{text}\n  {1e3 * seconds:.1f} ms per token on {dist.get_world_size()} ranks", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
