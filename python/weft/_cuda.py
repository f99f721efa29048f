"""Tensors on a GPU: what the library (python/csrc/gpu_ops.cc) has no kernel for is made of what it has, or refused."""

import torch

from weft._join import place_in

_ops = torch.ops.weft


def _all_gather_linear_rows(x, w, bias, group):
    """Whoever reads the gathered rows too has them gathered first; the product is torch's."""
    rows = _ops.all_gather(x, group)
    return torch.nn.functional.linear(rows, w, bias), rows


def _bags_backward(grad, indices, offsets, rows, mode, tables_of, group, sparse):
    """Every bag's gradient goes back to the rank that has the table, and is added to the rows that the bag held."""
    rank, ranks = place_in(group)
    own, samples, dim = tables_of[rank], grad.shape[0], grad.shape[1] // sum(tables_of)
    parts = grad.split([tables * dim for tables in tables_of], dim=1)
    by_owner = torch.cat([part.reshape(-1, dim) for part in parts])
    send, receive = [tables * samples for tables in tables_of], [own * samples] * ranks
    # Counts follow from tables_of, which all ranks agreed on in the forward pass: so nobody asks again.
    most = max(tables_of) * samples
    pooled = _ops.all_to_all_counts(by_owner, send, receive, group, most).view(-1, own, dim)  # (batch, own tables, dim)
    if len(indices) < own:
        return _of_all_tables(pooled.transpose(0, 1).reshape(-1, dim), indices[0], offsets[0], rows, mode, sparse)
    return [_of_table(pooled[:, t], indices[t], offsets[t], rows[t], mode, sparse) for t in range(own)]


def _values(bags, indices, offsets, mode):
    """What each index adds to its row."""
    lengths = offsets.diff()
    if mode == "mean":
        bags = bags / lengths.clamp(min=1).unsqueeze(1)
    return bags.repeat_interleave(lengths, dim=0, output_size=indices.numel())


def _of_table(bags, indices, offsets, rows, mode, sparse):
    values = _values(bags, indices, offsets, mode)
    return values if sparse else bags.new_zeros(rows, bags.shape[1]).index_add_(0, indices, values)


def _of_all_tables(bags, indices, offsets, rows, mode, sparse):
    """The same of tables whose bags are in one tensor: rows of all of them in one tensor, too, so nobody waits for counts."""
    values = _values(bags, indices, offsets, mode)
    counts = offsets[:: (offsets.shape[0] - 1) // len(rows)].diff()
    if sparse:
        return values.split(counts.tolist())
    before = torch.tensor([0, *rows[:-1]]).cumsum(0).to(indices.device)
    places = indices + before.repeat_interleave(counts, output_size=indices.numel())
    return bags.new_zeros(sum(rows), bags.shape[1]).index_add_(0, places, values).split(rows)


def _refuse_plan(plan, x, w, group):
    raise RuntimeError(
        "weft.run_plan: x is on a GPU, where plans of your own are not run; move it with .cpu(), or make the tiles in a "
        "Triton kernel (weft.triton)"
    )


torch.library.impl("weft::all_gather_linear_rows", "CUDA", _all_gather_linear_rows)
torch.library.impl("weft::embedding_bag_all_to_all_backward", "CUDA", _bags_backward)
torch.library.impl("weft::run_plan", "CUDA", _refuse_plan)
