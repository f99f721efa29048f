#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/window/window_map.h"

namespace weft {

std::vector<WindowStretch> stretches_of(const Plan& plan, const Expander& expander, std::int64_t page_bytes) {
  std::vector<WindowStretch> out;
  const int y = plan.buffer("y");
  const auto refuse = [&] {
    bad_input(
        "plan \"{}\" is more than stores of whole rows; a window takes a product that is kept, or goes by "
        "all_to_all, direct and stacked by rows",
        plan.name);
  };
  for (int r = 0; r < plan.num_ranks; ++r) {
    const Program program = expander.program(r);
    for (const Action& action : program.actions) {
      if (action.kind != ActionKind::step) {
        if (action.targets.size() > 0) refuse();
        continue;
      }
      const std::int64_t n = plan.producers[at(action.producer)].n, size = size_of(plan.buffers[at(y)].dtype);
      if (action.box.empty()) continue;
      if (action.targets.size() != 1 || action.sources.size() + action.reads.size() > 0 || action.finish) refuse();
      const Piece& to = program.targets(action)[0];
      if (to.buffer != y || action.box.size(1) != n || expander.shape(y, to.rank)[1] != n) refuse();
      const WindowStretch one{r, to.rank, action.box.lo[0] * n * size, to.box.lo[0] * n * size,
                              action.box.size(0) * n * size};
      if (one.made % page_bytes != 0 || one.kept % page_bytes != 0 || one.bytes % page_bytes != 0)
        bad_input(
            "{} rows of {} go from rank {} to rank {}: {} bytes from {} on, no whole pages of {}; a window needs "
            "those",
            action.box.size(0), n, r, to.rank, one.bytes, one.made, page_bytes);
      out.push_back(one);
    }
  }
  return out;
}

}  // namespace weft
