"""Models as they are: the styles of parallelize_module, a tp_plan of transformers, DDP and FSDP."""

import math

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


class Split(torch.nn.Module):
    """As transformers leaves a model that it has split: weights are DTensors, and a plan says how."""

    def __init__(self, mesh):
        super().__init__()
        from torch.distributed.tensor import Shard, distribute_tensor

        torch.manual_seed(0)
        self.words = torch.nn.Embedding(6 * weft.size(), 16)
        self.layers = torch.nn.ModuleList([Mlp(True), Mlp(False)])
        self.head = torch.nn.Linear(16, 12)
        self.whole = torch.nn.Linear(12, 12)
        style = {"up": "colwise", "gate": "colwise", "down": "rowwise"}
        self.tp_plan = {f"layers.*.{name}": of for name, of in style.items()} | {"head": "colwise_gather_output"}
        self.tp_plan["words"] = "embedding_rowwise"
        if mesh is None:
            return
        self.tp_plan |= {"whole": "rowwise_split_input", "layers": "sequence_parallel"}
        for name, module in [*self.named_modules()]:
            if not hasattr(module, "weight") or name == "whole":
                continue
            dim = 1 if name.endswith("down") else 0
            module.weight = torch.nn.Parameter(distribute_tensor(module.weight, mesh, [Shard(dim)]))
            if name != "words" and module.bias is not None and dim == 0:
                module.bias = torch.nn.Parameter(distribute_tensor(module.bias, mesh, [Shard(0)]))

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def fused():
    """weft.fuse: the layers of a model that transformers has split, each one op; what it cannot is left, and said."""
    dist.init_process_group("cpu:weft")
    mesh = dist.init_device_mesh("cpu", (weft.size(),))
    plain, model = Split(None), Split(mesh)
    lines = weft.fuse(model)
    assert sum(line.endswith(": fused") for line in lines) == 8, lines
    assert "whole, rowwise_split_input: left, its weight is not split" in lines, lines
    assert "layers, sequence_parallel: left, weft.fuse knows no such style" in lines, lines
    with torch.no_grad():
        for shape in ((1, 1), (2, 5), (40,)):
            tokens = torch.arange(math.prod(shape)).reshape(shape) * 5 % (6 * weft.size())
            near(model(tokens), plain(tokens), f"fused, {shape}")
        with torch.inference_mode():
            near(model(tokens), plain(tokens), "inference")
    assert any("linear_all_reduce m 40" in line for line in weft.report()), weft.report()
    model, asked = Split(mesh), []
    model.layers[0].down.forward = asked.append
    weft.fuse(model)
    model.layers[0].down(torch.ones(1, 12))
    assert len(asked) == 1, "where a gradient may be asked for, a layer does as before"
    refused(lambda: weft.fuse(torch.nn.Linear(2, 2)), "no tp_plan")


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
