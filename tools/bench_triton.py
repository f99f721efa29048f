#!/usr/bin/env python3
"""bench_triton.py: a Triton product as the producer of gemm + reduce_scatter, or + all_to_all (--op), on one GPU that its
ranks share.

Per shape, medians over rounds in which every way has its turn:
  plain       the plain kernel (python/examples/triton_kernels/plain_gemm.py), rank after rank, each on the whole GPU
  plain, A/A  the same once more
  split       the same, all ranks at once on their parts of the GPU, in streams
  alone       the producer with nothing to send: one rank on the whole GPU, beside the plain kernel of one rank
  collective  the collective alone, of tiles that lie in memory, over the same link
  fused       the producer with its collective
over the GPU's own memory, then over paced links that take as long as the plain product did (1:1). hidden is (sequential -
fused) / (sequential - max(plain, collective)) of the latter, where sequential is plain + collective.

    python3 tools/bench_triton.py --ranks 4 --m 8192 --n 8192 --k 2048 4096 8192 --json out.json
"""

import argparse
import json
import pathlib
import statistics
import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import weft.triton as wt

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python" / "examples" / "triton_kernels"))
import plain_gemm
import producer_gemm

BLOCK_K = 64


@wt.producer
@triton.jit
def scatter(plan, c, M, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """The collective alone: tiles that were made before."""
    me, here, first, programs, tiles = wt.begin(plan)
    for i in tl.range(first, tiles, programs):
        tile, row, col = wt.tile(me, i)
        made = c.load([here * M + row, col])
        wt.wait(me, tile)
        wt.put(me, tile, made)
        wt.signal(me, tile)
    wt.end(me)


def stages_that_fit(options):
    """Of the producer: 4, if shared memory has room for its operands and a strip of the tile; else as the plain kernel."""
    rows, cols = options.tile
    needed = 2 * (4 * (rows + cols) * BLOCK_K + rows * cols // 4) + 128  # bytes; 128 for the barriers of the stages
    room = torch.cuda.get_device_properties(0).shared_memory_per_multiprocessor // options.per_sm - 1024
    return 4 if needed <= room else options.stages


class Case:
    """One shape: its operands, all ways to make it, and what they must give."""

    def __init__(self, options, k):
        self.m, self.n, self.k, self.ranks, self.tile = options.m, options.n, k, options.ranks, tuple(options.tile)
        self.kind = options.op
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count * options.per_sm
        self.programs = self.sms // self.ranks
        self.launch = {"num_warps": options.warps, "num_stages": options.stages}
        self.producer_launch = {"num_warps": options.warps, "num_stages": options.producer_stages}
        self.x = torch.randn(self.ranks * self.m, k, device="cuda", dtype=torch.bfloat16)
        self.w = torch.randn(self.ranks * self.n, k, device="cuda", dtype=torch.bfloat16)
        self.c = torch.empty(self.ranks * self.m, self.n, device="cuda", dtype=torch.bfloat16)
        self.a, self.b = self.described(self.x, BLOCK_K), self.described(self.w, BLOCK_K, self.tile[1])
        self.made = self.described(self.c, self.tile[1])
        self.parts = [self.described_rank(r) for r in range(self.ranks)]
        self.streams = [torch.cuda.Stream() for _ in range(self.ranks)]
        self.blocks = {"BLOCK_M": self.tile[0], "BLOCK_N": self.tile[1], "BLOCK_K": BLOCK_K}

    def described(self, tensor, cols, rows=None):
        return TensorDescriptor.from_tensor(tensor, [rows or self.tile[0], cols])

    def described_rank(self, r):
        x, w, c = self.x[r * self.m :][: self.m], self.w[r * self.n :][: self.n], self.c[r * self.m :][: self.m]
        return self.described(x, BLOCK_K), self.described(w, BLOCK_K, self.tile[1]), self.described(c, self.tile[1])

    def op(self, link=None):
        route = "ring" if self.kind == "reduce_scatter" else "direct"
        plan = wt.plan(self.kind, self.ranks, (self.m, self.n, self.k), self.tile, route=route)
        return wt.Op(plan, self.programs, link=link)

    def alone_op(self):
        return wt.Op(wt.plan("keep", 1, (self.m, self.n, self.k), self.tile), self.sms)

    def plain_rank(self, r, programs):
        plain_gemm.gemm[(programs,)](*self.parts[r], self.m, self.n, self.k, **self.blocks, GROUP_M=8, **self.launch)

    def plain(self):
        for r in range(self.ranks):
            self.plain_rank(r, self.sms)

    def split(self):
        begun = torch.cuda.Event()
        begun.record()
        for r, stream in enumerate(self.streams):
            stream.wait_event(begun)
            with torch.cuda.stream(stream):
                self.plain_rank(r, self.programs)
            torch.cuda.current_stream().wait_stream(stream)

    def producer(self, op):
        sizes = (self.m, self.n, self.k)
        return lambda: producer_gemm.gemm[op.grid](op, self.a, self.b, *sizes, **self.blocks, **self.producer_launch)

    def collective(self, op):
        blocks = {name: self.blocks[name] for name in ("BLOCK_M", "BLOCK_N")}
        return lambda: scatter[op.grid](op, self.made, self.m, **blocks, **self.launch)

    def worst_error(self, op):
        """Of all ranks' outputs, against torch: norm of the difference over norm."""
        worst = 0.0
        made = [self.x[r * self.m :][: self.m].float() @ self.w[r * self.n :][: self.n].float().t() for r in range(self.ranks)]
        for r in range(self.ranks):
            parts = [one.chunk(self.ranks)[r] for one in made]
            part = sum(parts) if self.kind == "reduce_scatter" else torch.cat(parts)
            worst = max(worst, float((op.output(r).float() - part).norm() / part.norm()))
        return worst


def timed(call, repeat):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeat):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / repeat


def contest(ways, rounds, repeat):
    for call in ways.values():
        call()
    torch.cuda.synchronize()
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            call()  # the GPU's clock follows its load: each way settles first
            times[name].append(timed(call, repeat))
    return {name: statistics.median(t) for name, t in times.items()}


def hidden(plain, collective, fused):
    return (plain + collective - fused) / (plain + collective - max(plain, collective))


def measure(options, k):
    case = Case(options, k)
    memory, alone = case.op(), case.alone_op()
    plain = {"plain": case.plain, "plain, A/A": case.plain}
    first = contest(
        {
            **plain,
            "split": case.split,
            "plain of one": lambda: case.plain_rank(0, case.sms),
            "alone": case.producer(alone),
            "collective": case.collective(memory),
            "fused": case.producer(memory),
        },
        options.rounds,
        options.repeat,
    )
    # While links are waited for the GPU cools, and multiplies faster: the second of two links is as long as that product.
    bytes_sent = (case.ranks - 1) * case.m // case.ranks * case.n * 2
    second = first
    for _ in range(2):
        link = (bytes_sent / (second["plain"] * 1e-6), options.latency * 1e-6)
        paced = case.op(link)
        ways = {**plain, "collective": case.collective(paced), "fused": case.producer(paced)}
        second = contest(ways, options.rounds, options.repeat)
    for op in (memory, paced):
        case.producer(op)()
    return {
        "k": k,
        "memory_us": first,
        "paced_us": second,
        "link_gb_per_s": link[0] / 1e9,
        "tflops": 2e-6 * case.m * case.n * k * case.ranks / first["plain"],
        "alone_over_plain": first["alone"] / first["plain of one"],
        "fused_over_plain": first["fused"] / first["plain"],
        "hidden": hidden(second["plain"], second["collective"], second["fused"]),
        "less": 1 - second["fused"] / (second["plain"] + second["collective"]),
        "error": max(case.worst_error(op) for op in (memory, paced)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", choices=["reduce_scatter", "all_to_all"], default="reduce_scatter")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--m", type=int, default=8192)
    parser.add_argument("--n", type=int, default=8192)
    parser.add_argument("--k", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--tile", type=int, nargs=2, default=[128, 256])
    parser.add_argument("--warps", type=int, default=8)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--producer-stages", type=int, help="by default 4, if they fit, else as many as --stages")
    parser.add_argument("--per-sm", type=int, default=1, help="programs per multiprocessor")
    parser.add_argument("--latency", type=float, default=1.0, help="of the paced link, in us")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("bench_triton.py: no GPU is here")
    options.producer_stages = options.producer_stages or stages_that_fit(options)
    found = []
    for k in options.k:
        found.append(measure(options, k))
        print(json.dumps(found[-1]), flush=True)
    about = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__, **vars(options)}
    about.pop("json")
    if options.json:
        options.json.write_text(json.dumps({"about": about, "found": found}, indent=1))


if __name__ == "__main__":
    main()
