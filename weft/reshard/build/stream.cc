#include "weft/reshard/build/stream.h"

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft::resharding {

void check_stream(const Producer& producer, const Reshard& reshard) {
  if (reshard.transfers.size() != 1 || reshard.transfers[0].parts.size() != 1)
    bad_input(
        "a producer makes one tensor, but the reshard has {} transfers, the first of {} parts; give one of one part",
        reshard.transfers.size(), reshard.transfers.empty() ? 0 : reshard.transfers[0].parts.size());
  const ShardedTensor& source = reshard.transfers[0].parts[0].tensor;
  if (source.dtype != Dtype::f32 || source.shape.size() != 2)
    bad_input("a producer makes rows and columns of f32, but \"{}\" is {} of {} dimensions", source.name,
              to_string(source.dtype), source.shape.size());
  if (producer.residual)
    bad_input("a residual is added where the output stays, but this one leaves for another mesh; add it there");
  if (producer.kind == ProducerKind::window)
    bad_input("a window cannot be written into another mesh; use a gemm or a copy");
  const Placement& placement = reshard.placements[at(source.placement)];
  for (int i = 0; i < int_size(placement.ranks); ++i) {
    const Box box = shard_box(source.shape, source.sharding, placement.mesh, i);
    const int rank = placement.ranks[at(i)];
    if (box.size(0) != producer.m || box.size(1) != producer.columns(rank))
      bad_input("rank {} holds {} x {} of \"{}\", but the producer makes {} x {} there; give it the sizes of a shard",
                rank, box.size(0), box.size(1), source.name, producer.m, producer.columns(rank));
  }
}

}  // namespace weft::resharding
