"""A collective of your own, fused with a product: every rank's rows go to its right neighbour, tile by tile.

A plan is data: buffers, counters and rules that each rank reads for itself (docs/plan.md). Weft proves it before it
runs, here that every element arrives once, nobody waits for ever, and nothing is overwritten before it is read. One
that cannot be proved is refused with the reason.

    torchrun --standalone --nproc-per-node 2 python/examples/08_own_collective.py
"""

import torch

import weft


def shift(ranks, m, n, k):
    """y of rank r + 1 is x times w transposed of rank r: x (m, k), w (n, k)."""
    tile, whole = [16, 64], ["0:m", "0:n"]
    tiles = -(-m // min(m, tile[0])) * -(-n // min(n, tile[1]))
    tile = [min(m, tile[0]), min(n, tile[1])]
    return {
        "format": 2,
        "name": "shift",
        "ranks": ranks,
        "params": [f"m = {m}", f"n = {n}"],
        "producers": [{"kind": "gemv", "m": m, "n": n, "k": k, "tile": tile, "x": "f32", "w": "f32", "y": "f32", "layout": "nk"}],
        "outputs": ["y"],
        "buffers": [{"name": "y", "role": "output", "shape": ["m", "n"]}],
        "counters": [
            {"name": "open", "purpose": "open"},  # my right neighbour has done with what it got before
            {"name": "full", "purpose": "data", "total": tiles},  # tiles of mine that have come
        ],
        "rules": [
            {"name": "open", "kind": "trigger", "signals": [{"rank": "(r + N - 1) % N", "counter": "open"}]},
            {
                "name": "make", "kind": "step", "producer": 0, "box": whole, "tile": tile,
                "waits": [{"counter": "open"}],
                "targets": [{"rank": "(r + 1) % N", "buffer": "y", "box": whole}],
                "signals": [{"rank": "(r + 1) % N", "counter": "full"}],
            },
            {"name": "arrive", "kind": "trigger", "waits": [{"counter": "full", "at": tiles}]},
        ],
        "owed": [{"piece": {"buffer": "y", "box": whole}, "origin": [0, 0], "producer": 0, "first": "(r + N - 1) % N"}],
    }


if __name__ == "__main__":
    weft.init()
    x, w = torch.full((40, 8), float(weft.rank())), torch.ones(96, 8)
    plan = shift(weft.size(), 40, 96, 8)
    y = weft.run_plan(plan, x, w)
    left = (weft.rank() - 1) % weft.size()
    assert torch.equal(y, torch.full((40, 96), 8.0 * left))
    plan["rules"][1]["waits"] = []  # stores before its neighbour has read what came before
    try:
        weft.run_plan(plan, x, w)
    except RuntimeError as refused:
        print(f"rank {weft.rank()}: got the rows of rank {left}. Without its wait: {str(refused).splitlines()[0][:150]}")
