// The two halves of `weft reshard`.
#pragma once

#include "cli/reshard/spec.h"

namespace weft::cli {

int reshard_plan(const ReshardFlags& flags);

struct ReshardRunFlags {
  ReshardFlags reshard;
  int rounds = 5, threads = 1;
  std::string transport = "shm", trace;
  bool spoil = false;  // tests only: the check must find an element that was changed
};
int reshard_run(const ReshardRunFlags& flags);

}  // namespace weft::cli
