#include "tests/reshard_cases.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include <fmt/core.h>

#include "weft/base/index.h"

namespace weft::testing {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); }

Placement random_placement(Random& random, int num_ranks, const std::string& name) {
  const int a = 1 + below(random, std::min(num_ranks, 3));
  const int b = 1 + below(random, std::min(num_ranks / a, 4));
  Placement out{name, Mesh({{"a", a}, {"b", b}}), {}};
  std::vector<int> ranks(num(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::shuffle(ranks.begin(), ranks.end(), random);
  out.ranks.assign(ranks.begin(), ranks.begin() + a * b);
  return out;
}

Sharding random_sharding(Random& random, std::size_t dims) {
  Sharding out;
  out.dims.resize(dims);
  std::vector<std::string> axes{"a", "b"};
  if (below(random, 2) != 0) std::swap(axes[0], axes[1]);
  for (const std::string& axis : axes)
    if (const auto d = num(below(random, static_cast<int>(dims) + 1)); d < dims) out.dims[d].axes.push_back(axis);
  return out;
}

std::pair<Dtype, Dtype> random_dtypes(Random& random) {
  const std::pair<Dtype, Dtype> all[] = {
      {Dtype::f32, Dtype::f32}, {Dtype::bf16, Dtype::bf16}, {Dtype::i32, Dtype::i32}, {Dtype::i64, Dtype::i64},
      {Dtype::u8, Dtype::u8},   {Dtype::f32, Dtype::bf16},  {Dtype::bf16, Dtype::f32}};
  return all[below(random, 7)];
}

Transfer random_transfer(Random& random, int placements) {
  const auto dims = num(below(random, 12) == 0 ? 0 : 1 + below(random, 3));
  const auto [from, to] = random_dtypes(random);
  Transfer out;
  Shape shape;
  for (std::size_t d = 0; d < dims; ++d) shape.push_back(1 + below(random, dims == 1 ? 60 : 11));
  const int parts = dims > 0 && below(random, 3) == 0 ? 3 : 1;
  const auto along = num(dims > 0 ? below(random, static_cast<int>(dims)) : 0);
  std::vector<std::int64_t> at(dims, 0);
  for (int p = 0; p < parts; ++p) {
    Shape part = shape;
    if (parts > 1) part[along] = 1 + below(random, 9);
    out.parts.push_back(
        {{fmt::format("x{}", p), part, from, below(random, placements), random_sharding(random, dims)}, at});
    if (dims > 0) at[along] += part[along];
  }
  if (dims > 0) shape[along] = at[along];
  out.destination = {"y", shape, to, below(random, placements), random_sharding(random, dims)};
  return out;
}

// The value of one element of a transfer, before any change of dtype.
std::uint64_t value_of(std::size_t transfer, const Shape& shape, const std::array<std::int64_t, kMaxDims>& at,
                       int run) {
  std::uint64_t x = transfer * 1000003 + static_cast<std::uint64_t>(run) * 7919 + 1;
  for (std::size_t d = 0; d < shape.size(); ++d) x = (x ^ static_cast<std::uint64_t>(at[d])) * 0x9e3779b97f4a7c15ULL;
  return x ^ (x >> 29);
}

float float_of(std::uint64_t value) { return static_cast<float>(value % 100003) / 7 - 5000; }

template <typename T>
void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

// As a source of dtype `from` would give it to a destination of dtype `to`.
void put_value(std::byte* out, std::uint64_t value, Dtype from, Dtype to) {
  const float exact = float_of(value);
  const float held = from == Dtype::bf16 ? to_float(to_bf16(exact)) : exact;
  switch (to) {
    case Dtype::f32:
      return put(out, held);
    case Dtype::bf16:
      return put(out, to_bf16(held).bits);
    case Dtype::i32:
      return put(out, static_cast<std::uint32_t>(value));
    case Dtype::i64:
      return put(out, value);
    case Dtype::u8:
      return put(out, static_cast<std::uint8_t>(value));
    default:
      break;  // formats of sums between ranks and of weights: no tensor of a reshard has them
  }
}

// A rank's shard of a tensor; empty where it is not in the tensor's placement.
Box shard_of(const Reshard& reshard, const ShardedTensor& tensor, int rank) {
  const Placement& placement = reshard.placements[static_cast<std::size_t>(tensor.placement)];
  for (std::size_t i = 0; i < placement.ranks.size(); ++i)
    if (placement.ranks[i] == rank)
      return shard_box(tensor.shape, tensor.sharding, placement.mesh, static_cast<int>(i));
  Box none;
  none.dims = std::max(int_size(tensor.shape), 1);
  return none;
}

template <typename F>
void for_each_element(const Box& box, F&& f) {
  for (std::int64_t i = 0; i < box.volume(); ++i) {
    std::array<std::int64_t, kMaxDims> at{};
    std::int64_t rest = i;
    for (int d = box.dims - 1; d >= 0; --d) {
      at[static_cast<std::size_t>(d)] = box.lo[static_cast<std::size_t>(d)] + rest % box.size(d);
      rest /= box.size(d);
    }
    f(i, at);
  }
}

}  // namespace

ReshardCase random_reshard(std::uint64_t seed, int num_ranks) {
  Random random(seed * 77 + 5);
  ReshardCase out;
  out.reshard.num_ranks = num_ranks > 0 ? num_ranks : 2 + below(random, 8);
  const int per_host = 1 + below(random, 4), placements = 2 + below(random, 2);
  for (int rank = 0; rank < out.reshard.num_ranks; ++rank) out.host_of.push_back(rank / per_host);
  for (int p = 0; p < placements; ++p)
    out.reshard.placements.push_back(random_placement(random, out.reshard.num_ranks, fmt::format("p{}", p)));
  for (int t = 1 + below(random, 2); t > 0; --t) out.reshard.transfers.push_back(random_transfer(random, placements));
  out.name = fmt::format("seed {}, {} ranks, {} a host", seed, out.reshard.num_ranks, per_host);
  return out;
}

Network network_of(const ReshardCase& c) {
  return one_nic_a_host(c.host_of, {.bytes_per_s = 1e9, .latency_s = 5e-6}, {.bytes_per_s = 1e10, .latency_s = 1e-6});
}

Schedule random_schedule(const std::vector<Task>& tasks, std::uint64_t seed) {
  Random random(seed * 31 + 9);
  Schedule out;
  out.makespan_s = 1;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    const Task& task = tasks[t];
    std::vector<int> wanting;
    std::set_difference(task.receivers.begin(), task.receivers.end(), task.senders.begin(), task.senders.end(),
                        std::back_inserter(wanting));
    const auto d = num(task.box.dims > 0 ? below(random, task.box.dims) : 0);
    const std::int64_t most = task.box.dims > 0 ? task.box.size(static_cast<int>(d)) : 1;
    const std::int64_t parts = std::min<std::int64_t>(most, 1 + below(random, 3));
    for (std::int64_t part = 0; part < parts; ++part) {
      Chunk chunk;
      chunk.task = static_cast<int>(t);
      chunk.box = task.box;
      if (task.box.dims > 0) {
        chunk.box.lo[d] = task.box.lo[d] + cut(most, parts, part);
        chunk.box.hi[d] = task.box.lo[d] + cut(most, parts, part + 1);
      }
      std::shuffle(wanting.begin(), wanting.end(), random);
      chunk.root = task.senders[static_cast<std::size_t>(below(random, int_size(task.senders)))];
      std::vector<int> have{chunk.root};
      for (const int rank : wanting) {
        chunk.hops.push_back({have[static_cast<std::size_t>(below(random, int_size(have)))], rank});
        have.push_back(rank);
      }
      chunk.begin_s = below(random, 3) * 0.25;
      chunk.end_s = chunk.begin_s + 0.5;
      out.chunks.push_back(std::move(chunk));
    }
  }
  return out;
}

std::vector<std::vector<std::byte>> sources_of(const Reshard& reshard, int rank, int run) {
  std::vector<std::vector<std::byte>> out;
  for (std::size_t t = 0; t < reshard.transfers.size(); ++t)
    for (const Part& part : reshard.transfers[t].parts) {
      const Box box = shard_of(reshard, part.tensor, rank);
      const std::size_t size = size_of(part.tensor.dtype);
      out.emplace_back(num(box.volume()) * size);
      for_each_element(box, [&](std::int64_t i, std::array<std::int64_t, kMaxDims> at) {
        for (std::size_t d = 0; d < part.at.size(); ++d) at[d] += part.at[d];
        put_value(out.back().data() + num(i) * size, value_of(t, reshard.transfers[t].destination.shape, at, run),
                  part.tensor.dtype, part.tensor.dtype);
      });
    }
  return out;
}

std::vector<std::byte> wanted(const Reshard& reshard, std::size_t transfer, int rank, int run) {
  const Transfer& t = reshard.transfers[transfer];
  const Box box = shard_of(reshard, t.destination, rank);
  const std::size_t size = size_of(t.destination.dtype);
  std::vector<std::byte> out(num(box.volume()) * size);
  for_each_element(box, [&](std::int64_t i, const std::array<std::int64_t, kMaxDims>& at) {
    put_value(out.data() + num(i) * size, value_of(transfer, t.destination.shape, at, run), t.parts[0].tensor.dtype,
              t.destination.dtype);
  });
  return out;
}

std::vector<const void*> pointers(const std::vector<std::vector<std::byte>>& buffers) {
  std::vector<const void*> out;
  for (const auto& buffer : buffers) out.push_back(buffer.empty() ? nullptr : buffer.data());
  return out;
}

}  // namespace weft::testing
