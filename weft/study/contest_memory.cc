#include "weft/study/contest_memory.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/cluster/cluster.h"
#include "weft/collective/build.h"
#include "weft/exec/layout.h"
#include "weft/plan/program.h"
#include "weft/study/input/inputs.h"
#include "weft/transport/local/memory.h"

namespace weft {
namespace {

double op_bytes(const OpSpec& spec) {
  const Plan plan = build(spec, laid_out(default_cluster(spec.ranks), spec));
  return static_cast<double>(layout_of(plan, Expander(plan), 0).bytes);
}

void check_fits(const OpSpec& spec, double bytes_of_a_rank) {
  const double bytes = bytes_of_a_rank * spec.ranks;
  const double free = available_memory_bytes();
  if (bytes > 0.9 * free)
    fail(Code::no_memory, "{} ranks of {} {} need {}, and {} are free; use smaller shapes or fewer ranks", spec.ranks,
         spec.name, shape_text(spec), format_bytes(bytes), format_bytes(free));
}

}  // namespace

double contest_bytes(const OpSpec& spec) {
  double bytes = RankInputs::bytes(spec) + op_bytes(spec);
  if (!spec.alone()) bytes += op_bytes(producer_alone(spec));
  if (has_collective(spec)) {
    const OpSpec collective = collective_alone(spec);
    const double routes = 2 * op_bytes(collective) + std::min<double>(one_shot_bytes(collective), kMaxOneShotBytes);
    // Panels are tried in three numbers, each with the memory of the whole op.
    bytes += RankInputs::bytes(collective) + std::max(routes, op_bytes(collective)) +
             3 * (op_bytes(producer_alone(spec)) + op_bytes(collective));
  }
  return bytes;
}

void check_memory(const OpSpec& spec) {
  const double m = spec.producer.m, n = spec.producer.n;
  check_fits(spec, RankInputs::bytes(spec) + m * n * 4);  // what any plan takes, before one is built
  check_fits(spec, contest_bytes(spec));
}

}  // namespace weft
