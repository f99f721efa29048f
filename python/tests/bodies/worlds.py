"""Joining, groups, what is refused, faults, plans of one's own, and what is kept."""

import os
import time

import torch
import torch.distributed as dist

import weft

from bodies.plain import refused


def bad_input():
    refused(lambda: weft.linear_all_reduce(torch.ones(1, 4), torch.ones(2, 4)), "has not joined Weft", "weft.init()")
    refused(weft.rank, "weft.init()")
    weft.init()
    x, w = torch.ones(4, 8), torch.ones(3, 8)
    refused(lambda: weft.linear_all_reduce(x.double(), w), "x", "not float32")
    refused(lambda: weft.linear_all_reduce(x, w.bfloat16()), "w", "not float32")
    refused(lambda: weft.linear_all_reduce(x, torch.ones(3, 7)), "x has 8 columns and w (3, 7)")
    refused(lambda: weft.linear_all_reduce(x, torch.ones(8)), "w has 1 dimensions")
    refused(lambda: weft.linear_all_reduce(torch.ones(8), w), "x has 1 dimensions")
    refused(lambda: weft.linear_all_reduce(x, w, torch.ones(4)), "bias has 4 elements and w 3 rows")
    refused(lambda: weft.linear_reduce_scatter(torch.ones(3, 8), w), "3 rows, which 2 ranks cannot share; pad to 4")
    refused(lambda: weft.all_reduce(torch.ones(0, 8)), "empty")
    refused(weft.init, "joined Weft already")
    refused(lambda: weft.explain(weft.rank, x, w), 'no op "rank"')
    refused(lambda: weft.all_reduce(torch.ones(2, 2 + weft.rank())), "compile different plans")
    child = os.fork()
    if child == 0:
        refused(lambda: weft.all_reduce(torch.ones(2, 2)), "forked from a rank")
        refused(weft.init, "forked from a rank")
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert torch.equal(weft.all_reduce(torch.ones(2, 2)), torch.full((2, 2), 2.0)), "all ranks are alive"


def groups():
    """Two of three ranks: joining and compiling are theirs alone; the third does something else."""
    dist.init_process_group("gloo")
    weft.init()
    pair = dist.new_group([1, 2])
    if dist.get_rank() == 0:
        refused(lambda: weft.all_reduce(torch.ones(1, 2), group=pair), "rank 0 is not in this group")
    else:
        assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=pair), torch.full((1, 2), 2.0))
        assert weft.size(pair) == 2 and weft.rank(pair) == dist.get_rank() - 1
    assert torch.equal(weft.all_reduce(torch.ones(1, 2)), torch.full((1, 2), 3.0))
    assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=dist.group.WORLD), torch.full((1, 2), 3.0))
    mesh = dist.init_device_mesh("cpu", (1, 3), mesh_dim_names=("dp", "tp"))
    assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=(mesh, "tp")), torch.full((1, 2), 3.0))
    assert torch.equal(weft.all_reduce(torch.ones(1, 2), group=mesh["dp"]), torch.ones(1, 2))


def many_shapes():
    """New shapes all the time: the oldest are forgotten, alike on all ranks, and old ones may come again."""
    weft.init()
    w, shapes = torch.ones(8, 4), int(os.environ["SHAPES"])
    most, resident = 0, []
    for rows in list(range(1, shapes + 1)) + [1, 2, 3]:
        assert weft.linear_all_reduce(torch.ones(rows, 4), w)[0, 0] == 8
        most = max(most, torch.ops.weft.memory_bytes(""))
        resident.append(resident_bytes())
    assert len(weft.report()) == 64, "shapes that are kept"
    assert most < 16 << 20, most
    grown = resident[-1] - resident[shapes // 2]
    # Kept, plans and proofs of so many shapes would be ten times that.
    assert grown < 20_000 * shapes // 2, f"{grown} bytes more after the last {shapes // 2} shapes"


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def explain():
    weft.init()
    said = weft.explain(weft.linear_all_reduce, torch.ones(1, 256), torch.ones(1024, 256))
    assert said.startswith("fused: priced fused ") and "GF/s" in said, said
    said = weft.explain(weft.linear_reduce_scatter, torch.ones(2048, 512), torch.ones(2048, 512))
    assert "window" in said and "after" in said, said
    assert weft.report() == []
    weft.all_reduce(torch.ones(1, 2))
    assert weft.report()[0].startswith("all_reduce m 1 n 2"), weft.report()


def killed():
    """Rank 1 is killed by the test in the middle of endless runs; rank 0 names it."""
    weft.init()
    x, w = torch.ones(4, 8), torch.ones(4, 8)
    weft.linear_all_reduce(x, w)
    print("running", flush=True)
    try:
        while True:
            weft.linear_all_reduce(x, w)
    except RuntimeError as error:
        print(f"{time.time()} {str(error).splitlines()[0]}", flush=True)


def own_plan():
    """A plan of the user's own runs where it can be proved, and is refused, with the reason, where not."""
    import pathlib
    import runpy

    weft.init()
    ranks, me = weft.size(), weft.rank()
    shift = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "examples" / "08_own_collective.py"))["shift"]
    x, w = torch.full((6, 4), float(me)), torch.eye(4)[:3]
    for _ in range(3):
        y = weft.run_plan(shift(ranks, 6, 3, 4), x, w)
        assert torch.equal(y, torch.full((6, 3), float((me - 1) % ranks))), y
    silent = shift(ranks, 6, 3, 4)
    silent["rules"][1].pop("signals")
    refused(lambda: weft.run_plan(silent, x, w), "not runnable")
    early = shift(ranks, 6, 3, 4)
    early["rules"][1].pop("waits")
    refused(lambda: weft.run_plan(early, x, w), "not runnable")
    refused(lambda: weft.run_plan("{", x, w), "weft.run_plan")
    refused(lambda: weft.run_plan(shift(ranks + 1, 6, 3, 4), x, w), "ranks")
    refused(lambda: weft.run_plan(shift(ranks, 6, 3, 4), x), "reads w too")
    refused(lambda: weft.run_plan(shift(ranks, 6, 3, 4), x[:5], w), "x has 20 elements", "(6, 4)")
    for rows in range(1, 20):
        assert weft.run_plan(shift(ranks, rows, 3, 4), x[:1].expand(rows, 4), w).shape == (rows, 3)
    assert weft.run_plan(shift(ranks, 6, 3, 4), x, w).shape == (6, 3), "an old one comes again"
