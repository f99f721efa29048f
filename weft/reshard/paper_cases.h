// The nine many-to-many cases of Zhuang et al., MLSys 2023, as the command line writes them: a mesh of hosts x
// devices, and per dimension R (replicated) or S with the axes that split it.
#pragma once

#include <array>

namespace weft {

struct PaperCase {
  std::array<int, 3> shape;
  int source_hosts, destination_hosts;
  const char *source, *destination;

  static constexpr int kDevices = 4;  // of every host
};

inline constexpr std::array<PaperCase, 9> kPaperCases{{{{1024, 1024, 512}, 2, 2, "S0,R,R", "S0,R,R"},
                                                       {{1024, 1024, 512}, 2, 2, "R,R,R", "S0,R,R"},
                                                       {{1024, 1024, 512}, 2, 2, "R,S0,R", "S0,R,R"},
                                                       {{1024, 1024, 512}, 2, 2, "R,S01,R", "S01,R,R"},
                                                       {{1024, 1024, 512}, 2, 2, "S1,R,R", "S0,R,R"},
                                                       {{3072, 1024, 170}, 2, 3, "S0,R,R", "S0,R,R"},
                                                       {{1024, 1024, 512}, 1, 2, "S01,R,R", "R,R,R"},
                                                       {{1024, 1024, 512}, 1, 2, "S01,R,R", "R,R,R"},
                                                       {{1024, 1024, 512}, 2, 2, "R,S0,R", "R,R,S0"}}};

}  // namespace weft
