// The two halves of `weft reshard`.
#pragma once

#include "cli/rank_flags.h"
#include "cli/reshard/flags.h"

namespace weft::cli::reshard {

int plan(const Flags& flags);

struct RunFlags {
  Flags reshard;
  RankFlags ranks;  // its link is that of `reshard`
  int rounds = 5;
  bool spoil = false;  // tests only: the check must find an element that was changed
};
int run(const RunFlags& flags);

}  // namespace weft::cli::reshard
