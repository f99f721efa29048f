#include "weft/study/ledger/weights.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "weft/base/error.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/clock.h"
#include "weft/study/input/values.h"
#include "weft/study/proof.h"
#include "weft/world/world.h"

namespace weft {
namespace {

Reshard from_rows(const Shape& shape, WeightLoader::Split split, int ranks) {
  Placement all{"tp", Mesh({{"tp", ranks}}), std::vector<int>(num(ranks))};
  std::iota(all.ranks.begin(), all.ranks.end(), 0);
  const auto sharded = [&](const char* spec) {
    return ShardedTensor{"w", shape, Dtype::f32, 0, parse_sharding(spec, all.mesh)};
  };
  Transfer transfer{{{sharded("S0,R"), {0, 0}}}, sharded(split == WeightLoader::Split::rows ? "S0,R" : "R,S0")};
  return {{std::move(all)}, {std::move(transfer)}, ranks};
}

struct Values {
  std::uint64_t stream;
  std::int64_t columns;  // of the whole matrix
  float scale;
  float at(std::int64_t row, std::int64_t col) const { return value_at(stream, row * columns + col) * scale; }
};

std::vector<float> shard_of(const Box& box, const Values& values) {
  std::vector<float> out(num(box.volume()));
  float* next = out.data();
  for (std::int64_t row = box.lo[0]; row < box.hi[0]; ++row)
    for (std::int64_t col = box.lo[1]; col < box.hi[1]; ++col) *next++ = values.at(row, col);
  return out;
}

void check(const float* part, const Box& box, const Values& values, int rank) {
  for (std::int64_t row = box.lo[0]; row < box.hi[0]; ++row)
    for (std::int64_t col = box.lo[1]; col < box.hi[1]; ++col, ++part)
      if (*part != values.at(row, col))
        fail(Code::internal, "weight ({}, {}) came to rank {} as {}, not {}; a wrong model has no time", row, col, rank,
             *part, values.at(row, col));
}

}  // namespace

const float* WeightLoader::load(std::int64_t k, std::int64_t n, Split split, float scale) {
  const int ranks = world_.size(), rank = world_.rank();
  const Shape shape{split == Split::rows ? k * ranks : k, split == Split::rows ? n : n * ranks};
  const Values values{stream_of(Input::w, 0, 0, static_cast<std::uint64_t>(++done_.matrices)), shape[1], scale};
  const Reshard reshard = from_rows(shape, split, ranks);
  const Transfer& transfer = reshard.transfers[0];
  const Mesh& mesh = reshard.placements[0].mesh;
  const std::vector<float> source = shard_of(shard_box(shape, transfer.parts[0].tensor.sharding, mesh, rank), values);
  Op& op = ops_.emplace_back(world_.compile(reshard));

  const std::int64_t start = clock_.start_together();
  const void* input = source.empty() ? nullptr : source.data();
  op.run({&input, 1});
  const auto* part = static_cast<const float*>(op.view("dst0").data);
  done_.measured_us += clock_.worst_of_ranks(CommonClock::now_ns() - start) * 1e-3;
  done_.sent_bytes += clock_.sum_of_ranks(op.sent().bytes);
  check(part, shard_box(shape, transfer.destination.sharding, mesh, rank), values, rank);

  done_.bytes += static_cast<double>(k * n * ranks) * sizeof(float);
  done_.predicted_us += estimate(op.plan(), world_.cluster(ranks)).seconds * 1e6;
  done_.verify_ms += timed_verify(op.plan()).ms;                 // it was proved before it ran; this is for the clock
  if (split == Split::columns) done_.strategy = op.plan().name;  // where rows stay rows, nothing is sent
  return part;
}

}  // namespace weft
