"""Process groups: a mesh of data- and tensor-parallel ranks. Ops take a mesh dimension, a ProcessGroup or nothing.

    torchrun --standalone --nproc-per-node 4 python/examples/03_group.py
"""

import torch
import torch.distributed as dist

import weft


def main():
    dist.init_process_group("gloo")
    weft.init()
    tp = 2 if weft.size() % 2 == 0 else 1
    mesh = dist.init_device_mesh("cpu", (weft.size() // tp, tp), mesh_dim_names=("dp", "tp"))
    x, w = torch.ones(4, 8), torch.ones(16, 8)
    y = weft.linear_all_reduce(x, w, group=(mesh, "tp"))  # summed over the ranks of this rank's row of the mesh
    assert torch.equal(y, torch.full((4, 16), 8.0 * tp))
    mean = weft.all_reduce(y, group=(mesh, "dp")) / weft.size(mesh["dp"])
    assert torch.equal(mean, y)
    if weft.rank() == 0:
        print(f"{weft.size()} ranks, groups of {weft.size(mesh['tp'])}: {y[0, 0].item():.0f}")
        print("\n".join(weft.report((mesh, "tp"))))


if __name__ == "__main__":
    main()
