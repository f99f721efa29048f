"""Models as they are: the styles of parallelize_module, DDP and FSDP."""

import torch
import torch.distributed as dist

import weft

from bodies.plain import Mlp, near, refused, replicated


def styles():
    """weft.Colwise and weft.Rowwise, without torch.compile, against the whole block."""
    from torch.distributed.tensor.parallel import parallelize_module

    dist.init_process_group("gloo")
    weft.init()
    mesh = dist.init_device_mesh("cpu", (weft.size(),))
    for bias in (False, True):
        for shape, dim in [((8, 16), None), ((2, 8, 16), None), ((8, 16), 0), ((2, 8, 16), 1)]:
            torch.manual_seed(0)
            plain, model = Mlp(bias), Mlp(bias)
            model.load_state_dict(plain.state_dict())
            plan = {"up": weft.Colwise(dim), "gate": weft.Colwise(dim), "down": weft.Rowwise(dim)}
            model = parallelize_module(model, mesh, plan)
            x = replicated(*shape, seed=1).requires_grad_()
            part = x.detach() if dim is None else x.detach().chunk(weft.size(), dim)[weft.rank()]
            leaf = part.clone().requires_grad_()
            y, expected = model(leaf), plain(x)
            y.square().sum().backward()
            expected.square().sum().backward()
            for got, whole in ((y, expected), (leaf.grad, x.grad)):
                whole = whole if dim is None else whole.chunk(weft.size(), dim)[weft.rank()]
                near(got, whole, f"bias {bias}, {shape}, dim {dim}")
            for (name, got), (_, whole) in zip(model.named_parameters(), plain.named_parameters()):
                near(got.grad.full_tensor(), whole.grad, f"bias {bias}, {shape}, dim {dim}: gradient of {name}")
    refused(lambda: parallelize_module(torch.nn.ReLU(), mesh, weft.Rowwise()), "torch.nn.Linear, not ReLU")
    refused(lambda: parallelize_module(torch.nn.Linear(3, 5), mesh, weft.Colwise()), "cannot share 5")


def data_parallel():
    """DDP and FSDP over the backend "weft" train as one process does."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("cpu:weft")
    ranks, me = dist.get_world_size(), dist.get_rank()
    x, y = replicated(4 * ranks, 16, seed=1), replicated(4 * ranks, 16, seed=2)

    def trained(wrap, rows):
        torch.manual_seed(0)
        model = wrap(Mlp(True))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            (model(x[rows]) - y[rows]).square().mean().backward()
            optimiser.step()
        values = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
        return torch.cat([value.detach().reshape(-1) for value in values])

    alone, mine = trained(lambda model: model, slice(None)), slice(4 * me, 4 * me + 4)
    near(trained(DistributedDataParallel, mine), alone, "DDP")
    mesh = dist.init_device_mesh("cpu", (ranks,))
    near(trained(lambda model: fully_shard(model, mesh=mesh), mine), alone, "FSDP")
