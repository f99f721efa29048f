#!/usr/bin/env python3
"""check_sass.py OBJECT...: reads the machine code of the gemm's kernels, which nvcc made for sm_90a, and fails where a
change of theirs cost what no test without a GPU can see:

- products that are waited for at once. ptxas does that in silence where registers of a product are needed elsewhere;
  then a kernel has more than one WARPGROUP.DEPBAR, and nothing is done beside its products.
- registers in memory: more than some loads and stores of it, which belong to waits that have lasted too long.

Needs no tool of CUDA: an instruction has 16 bytes, its code the lowest 12 bits."""
import collections
import struct
import sys

OPCODES = {0x9F0: "HGMMA", 0x387: "STL", 0x983: "LDL"}
WARPGROUP, DEPBAR = 0x9C5, 0x8000
MOST_IN_MEMORY = 40  # STL and LDL; 31 of give_up's arguments in November 2026


def sections(elf):
    """(name, bytes) of every section."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + i * size) for i in range(count)]
    start = headers[names][4]
    for name, _, _, _, at, length in headers:
        end = elf.index(b"\0", start + name)
        yield elf[start + name:end].decode(), elf[at:at + length]


def count(code):
    out = collections.Counter()
    for at in range(0, len(code), 16):
        word, = struct.unpack_from("<Q", code, at)
        opcode = word & 0xFFF
        if opcode == WARPGROUP:
            out["DEPBAR" if word >> 32 & 0xFFFF == DEPBAR else "ARRIVE"] += 1
        elif opcode in OPCODES:
            out[OPCODES[opcode]] += 1
    return out


def kernels(path):
    with open(path, "rb") as file:
        host = file.read()
    for name, data in sections(host):
        if name != ".nv_fatbin":
            continue
        device = data[data.index(b"\x7fELF"):]
        for name, code in sections(device):
            if name.startswith(".text."):
                yield name.removeprefix(".text."), count(code)


def problem_of(found):
    if found["HGMMA"] == 0:
        return "has no wgmma"
    if found["ARRIVE"] != 1 or found["DEPBAR"] != 1:
        return f"waits for its products at {found['DEPBAR']} places, not at one: ptxas has made them synchronous"
    if found["STL"] + found["LDL"] > MOST_IN_MEMORY:
        return f"keeps registers in memory: {found['STL']} stores and {found['LDL']} loads, {MOST_IN_MEMORY} are right"
    return None


def main():
    bad = seen = 0
    for path in sys.argv[1:]:
        found_here = list(kernels(path))
        seen += len(found_here)
        if not found_here:
            bad += 1
            print(f"{path}: no kernel of a gemm is in it")
        for name, found in found_here:
            problem = problem_of(found)
            if problem:
                bad += 1
                print(f"{path}: {name} {problem}")
    print(f"{seen} kernels of gemms, {bad} of them not as they should be")
    sys.exit(bad > 0 or seen == 0)


if __name__ == "__main__":
    main()
