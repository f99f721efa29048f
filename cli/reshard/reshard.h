// The two halves of `weft reshard`.
#pragma once

#include "cli/rank_flags.h"
#include "cli/reshard/spec.h"

namespace weft::cli {

int reshard_plan(const ReshardFlags& flags);

struct ReshardRunFlags {
  ReshardFlags reshard;
  RankFlags ranks;  // its link is that of `reshard`
  int rounds = 5;
  bool spoil = false;  // tests only: the check must find an element that was changed
};
int reshard_run(const ReshardRunFlags& flags);

}  // namespace weft::cli
