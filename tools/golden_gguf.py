#!/usr/bin/env python3
"""Writes tests/gguf/: a small GGUF file of every type that Weft reads, and what llama.cpp's own Python package makes of it.

golden.gguf has settings of every kind and one tensor per type; golden.safetensors has the same tensors as f32, dequantised
by gguf.quants, and for q8_0 and q4_0 the values that were quantised ("source"). The tests ask for equal bits. Blocks of
q4_k and q6_k are random bytes with finite scales, so that every bit of every field is seen: zeros, subnormals and negative
scales among them.

usage: golden_gguf.py [FOLDER]    (needs the packages gguf, numpy and safetensors)
"""

import pathlib
import sys

import gguf
import numpy as np
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file

Q = gguf.GGMLQuantizationType
ROWS = 3


def halves(random, count):
    """Finite halves: mostly of the size of real scales; among them zero, the smallest subnormal and the largest."""
    values = (random.standard_normal(count) * 0.01).astype(np.float16)
    values[:4] = np.array([0, 6e-8, -65504, 65504], dtype=np.float16)[: min(4, count)]
    return values.view(np.uint8).reshape(count, 2)


def random_blocks(random, kind, values):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * values // block
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    places = {Q.Q4_K: [0, 2], Q.Q6_K: [208], Q.Q8_0: [0], Q.Q4_0: [0]}[kind]
    for place in places:
        scales = halves(random, count)
        blocks[:, place : place + 2] = scales[random.permutation(count)]
    return blocks.reshape(ROWS, values // block * size)


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests" / "gguf")
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(20)
    writer = gguf.GGUFWriter(str(folder / "golden.gguf"), "llama")
    writer.add_uint8("kinds.u8", 200)
    writer.add_int8("kinds.i8", -100)
    writer.add_uint16("kinds.u16", 60000)
    writer.add_int16("kinds.i16", -30000)
    writer.add_uint32("kinds.u32", 4000000000)
    writer.add_int32("kinds.i32", -2000000000)
    writer.add_uint64("kinds.u64", 1 << 40)
    writer.add_int64("kinds.i64", -(1 << 40))
    writer.add_float32("kinds.f32", 0.5)
    writer.add_float64("kinds.f64", 1e-300)
    writer.add_bool("kinds.bool", True)
    writer.add_string("kinds.text", "weft \u25a6")
    writer.add_array("kinds.texts", ["", "a", "\u2581b"])
    writer.add_array("kinds.ints", [3, -4, 5])
    writer.add_array("kinds.floats", [0.25, -1.5])
    expected = {}
    source = (random.standard_normal((ROWS, 512)) * 0.05).astype(np.float32)
    source[0, :32] = 0
    source[1, 32:64] *= 1e-30
    source[2, 64:96] = 7
    expected["source"] = source
    for kind in [Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0]:
        data = quantize(source, kind)
        writer.add_tensor(kind.name.lower(), data, raw_dtype=kind)
        expected[kind.name.lower()] = dequantize(data, kind).reshape(ROWS, 512).astype(np.float32)
    for kind in [Q.Q8_0, Q.Q4_0, Q.Q4_K, Q.Q6_K]:
        data = random_blocks(random, kind, 512)
        writer.add_tensor(kind.name.lower() + ".random", data, raw_dtype=kind)
        expected[kind.name.lower() + ".random"] = dequantize(data, kind).reshape(ROWS, 512)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, str(folder / "golden.safetensors"))


if __name__ == "__main__":
    main()
