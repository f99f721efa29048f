"""A plan made ready for kernels: memory of its ranks, and its tables as tensors of addresses."""

import json
import math
import os

import torch
import triton

import weft._library  # noqa: F401 (registers torch.ops.weft)
from weft.triton import _kernel

_ops = torch.ops.weft
_DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16"}
_OF_SIZE = {4: torch.float32, 2: torch.bfloat16}
_FACTS = "ranks bytes counters num_counters tiles opening closing tile_rows tile_cols output rows cols element".split()


def plan(space, ranks, shape, tile, dtype=torch.bfloat16, route="auto"):
    """The plan of x (m, k) times w (n, k) transposed into a space, as text: shape is (m, n, k) of one rank.

    Spaces are "reduce_scatter", "all_reduce", "all_to_all" and "keep", which has one rank. `tile` is what the kernel
    makes at a time, and `dtype` what it stores.
    """
    if dtype not in _DTYPES:
        raise RuntimeError(f"weft.triton.plan: tiles of {dtype}; use torch.float32 or torch.bfloat16")
    return _ops.tile_plan(space, ranks, list(shape), list(tile), _DTYPES[dtype], route)


def reference(plan, x, w):
    """What every rank's output must be, in f32, from all ranks' x and w: one thread, slow and obvious."""
    return _ops.run_reference(_text(plan), list(x), list(w))


def shared_segments(plan, path):
    """Memory of all ranks that processes of one machine share: files at path.0, path.1, ..., new and empty, or as the
    other processes have them. For CPUs; the caller removes them."""
    return [
        torch.from_file(f"{path}.{rank}", shared=True, size=_segment_bytes(facts), dtype=torch.uint8)
        for rank, (facts, *_) in enumerate(_all_tables(_text(plan), 1, 8))
    ]


class Op:
    """A plan with memory. `rank` is this process's, with every rank's segments; without it, all ranks share a launch.

    programs   of one rank: with several ranks here, all of them must be resident at once
    segments   one uint8 tensor of zeros per rank, which all ranks can write; without them, new memory on `device`
    link       (bytes per second, latency in s): transfers take as long as over such a link, for measuring
    deadline   seconds that a wait may last
    """

    def __init__(self, plan, programs, rank=None, segments=None, device=None, link=None, deadline=10.0, group_rows=8):
        self.text, self.programs, self.group_rows = _text(plan), programs, group_rows
        tables = _all_tables(self.text, programs, group_rows)
        self._facts = [facts for facts, *_ in tables]
        ranks = self._facts[0]["ranks"]
        self.here = list(range(ranks)) if rank is None else [rank]
        self._check(rank, ranks, segments)
        device = segments[0].device if segments else torch.device(device or ("cpu" if _interprets() else "cuda"))
        self.segments = segments or [torch.zeros(_segment_bytes(f), dtype=torch.uint8, device=device) for f in self._facts]
        self.dtype = _OF_SIZE[self._facts[0]["element"]]
        self.tile = (self._facts[0]["tile_rows"], self._facts[0]["tile_cols"])
        self.grid = (programs * len(self.here),)
        self._states = torch.zeros(len(self.here), _kernel.STATE.value + programs, dtype=torch.int64, device=device)
        self._links = torch.zeros(len(self.here), ranks, dtype=torch.int64, device=device)
        self._pace = _pace(link)
        self._kept = []  # tables that the heads point to
        self._broken = False
        heads = torch.zeros(len(self.here), _kernel.HEAD.value, dtype=torch.int64, device=device)
        self.heads = heads.view(self.dtype)  # how kernels know the type of tiles
        words = [self._head(index, tables[r], deadline) for index, r in enumerate(self.here)]
        heads.copy_(torch.tensor(words, dtype=torch.int64))

    def output(self, rank=None):
        """What the plan owes a rank of this process, once all that was launched has ended. Read it before the next run."""
        rank = self.here[0] if rank is None else rank
        if rank not in self.here:
            raise RuntimeError(f"weft.triton: rank {rank} is not here; this process has {self.here}")
        self.check()
        facts = self._facts[rank]
        size = facts["rows"] * facts["cols"] * facts["element"]
        y = self.segments[rank][facts["output"] : facts["output"] + size]
        return y.view(self.dtype).view(facts["rows"], facts["cols"])

    def check(self):
        """Waits for what was launched; a wait that was given up is a RuntimeError that names rank, peer and tile."""
        for failed, rank, *failure in self._states[:, 2:8].tolist():
            if failed:
                self._broken = True
                said = _ops.describe_tile_wait(self.text, rank, self.programs, self.group_rows, failure)
                raise RuntimeError(f"weft.triton: {said}; make a new op on every rank")

    def ready(self):
        """Whether it may be launched: not after a wait that was given up, which left counters behind."""
        if self._broken:
            raise RuntimeError("weft.triton: a run of this op has failed; make a new op on every rank")

    def _check(self, rank, ranks, segments):
        if rank is not None and not 0 <= rank < ranks:
            raise RuntimeError(f"weft.triton.Op: rank {rank} of a plan for {ranks} ranks")
        if rank is not None and ranks > 1 and segments is None:
            raise RuntimeError("weft.triton.Op: one rank of several needs the segments of all; see shared_segments")
        if _interprets() and (self.programs > 1 or len(self.here) > 1):
            raise RuntimeError(
                "weft.triton.Op: Triton's interpreter runs programs one after another, so they cannot wait for one "
                "another; use programs=1 and one process per rank"
            )
        if self._facts[0]["cols"] % 8 or self._facts[0]["tile_cols"] % 8:
            raise RuntimeError(
                f"weft.triton.Op: rows of {self._facts[0]['cols']} columns in tiles of {self._facts[0]['tile_cols']}; "
                "tiles are stored in pieces of 16 bytes: pad both to a multiple of 8"
            )
        if segments is None:
            return
        if len(segments) != ranks:
            raise RuntimeError(f"weft.triton.Op: {len(segments)} segments for {ranks} ranks; give one per rank")
        for r, segment in enumerate(segments):
            size = _segment_bytes(self._facts[r])
            if segment.dtype != torch.uint8 or segment.numel() < size or segment.data_ptr() % 16:
                raise RuntimeError(
                    f"weft.triton.Op: the segment of rank {r} has {segment.numel()} elements of {segment.dtype}; give at "
                    f"least {size} of torch.uint8, from an address that 16 divides"
                )

    def _head(self, index, tables, deadline):
        """One rank's head: _kernel.py says what its words are."""
        facts, lanes, waits, places, signals, late = tables
        rank, device = self.here[index], self.segments[0].device
        bases = torch.tensor([s.data_ptr() for s in self.segments])
        counters = bases + torch.tensor([f["counters"] for f in self._facts])
        stamps = bases + torch.tensor([f["bytes"] for f in self._facts])
        links = self._links[index].data_ptr() + 8 * torch.arange(len(bases))
        links = torch.where((torch.arange(len(bases)) == rank) | (self._pace[0] == 0), 0, links)
        counter, at, total, lag = waits.unbind(1)
        waits = torch.stack([counters[rank] + 4 * counter, at, total, lag, stamps[rank] + 8 * counter], 1)
        to, offset, stride, copy_bytes, depth = places.unbind(1)
        first = bases[to] + offset - self.heads.data_ptr()
        places = torch.stack([first // 16, stride * facts["element"] // 16, copy_bytes // 16, depth - 1], 1)
        to, counter, size = signals.unbind(1)
        signals = torch.stack([counters[to] + 4 * counter, stamps[to] + 8 * counter, links[to], size], 1)
        late = torch.cat([counters[rank] + 4 * late[:, :1], late[:, 1:]], 1)
        # What a lane has none of is loaded and not looked at.
        lanes = lanes.long()
        firsts = [_entries(t, lanes[:, at]) for t, at in ((waits, 4), (places, 6), (places, 8), (signals, 10))]
        lanes = torch.cat([lanes, *firsts], 1)
        kept = [t.contiguous().to(device) for t in (lanes, waits, places, signals, late)]
        self._kept += kept
        state = self._states[index].data_ptr()
        words = [rank, self.programs, *(t.data_ptr() for t in kept[:4]), facts["tiles"], facts["opening"], facts["closing"]]
        words += [state, math.ceil(deadline * 1e9), *self._pace, kept[4].data_ptr(), len(late)]
        return words + [0] * (_kernel.HEAD.value - len(words))


def _text(plan):
    return plan if isinstance(plan, str) else json.dumps(plan)


def _all_tables(text, programs, group_rows):
    """Of every rank: facts by name, then lanes, waits, places, signals, late signals."""
    first = _ops.tile_tables(text, 0, programs, group_rows)
    ranks = int(first[0][0])
    tables = [first] + [_ops.tile_tables(text, rank, programs, group_rows) for rank in range(1, ranks)]
    return [(dict(zip(_FACTS, facts.flatten().tolist())), *rest) for facts, *rest in tables]


def _entries(table, numbers):
    """Rows of a table by their numbers, and any for one past the end."""
    return torch.cat([table, table.new_zeros(1, table.shape[1])])[numbers.clamp(max=len(table))]


def _segment_bytes(facts):
    return facts["bytes"] + 8 * facts["num_counters"]  # stamps, which paced links leave beside counters


def _pace(link):
    """Picoseconds per byte and nanoseconds of latency."""
    return [0, 0] if link is None else [max(1, round(1e12 / link[0])), round(link[1] * 1e9)]


def _interprets():
    return os.environ.get("TRITON_INTERPRET", "0") == "1" or triton.knobs.runtime.interpret
