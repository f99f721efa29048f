// The one place that starts ranks. A command calls on_ranks, and the same words on the command line play every role:
// the launcher that checks and waits, and the ranks that work.
#pragma once

#include <functional>

#include "weft/base/error.h"
#include "weft/world/world.h"

#include "cli/rank_flags.h"

namespace weft::cli {

using RankBody = std::function<int(World&)>;  // returns the rank's exit code

struct AroundRanks {
  // Refuses what cannot be done and says what will be: called once before there are ranks; on every rank under mpirun,
  // since nobody came before those. Empty: nothing to do.
  std::function<void()> before;
  // What the world of each rank is made with, asked for on the rank. Empty: world_options(flags).
  std::function<WorldOptions()> options;
};

// Runs `body` on every rank and returns the exit code. Where a launcher (mpirun, weft run) has started this process, it
// is a rank. Otherwise flags.count ranks are started here: processes, whose rank 0 owns standard output, or threads.
int on_ranks(const RankFlags& flags, const RankBody& body, const AroundRanks& around = {});

// The same for ranks that are always processes and join the world themselves, where there is work before: `as_rank`
// calls World::init. `before` as above.
int on_processes(int count, const std::function<int()>& as_rank, const std::function<void()>& before = {});

// Whether this process should tell the error: a rank of its own failures, rank 0 of those that are nobody's, and the
// launcher of ranks that died or hung. Where a launcher listens (leave_words), every rank leaves its own with it.
bool speaks_of(const Error& error);

}  // namespace weft::cli
