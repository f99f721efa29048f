// main() of a test program that starts itself again as ranks: with `--child WORDS...` it is one of them, otherwise it
// runs the tests.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace weft::testing {

using ChildWords = std::vector<std::string>;  // those after --child

inline int test_main(int argc, char** argv, const std::function<int(const ChildWords&)>& child) {
  if (argc < 2 || std::string(argv[1]) != "--child") {
    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  try {
    return child(ChildWords(argv + 2, argv + argc));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

// What a rank ends with that found a problem, or none.
inline int verdict_of(int rank, const std::string& problem) {
  if (!problem.empty()) fmt::print(stderr, "rank {}: {}\n", rank, problem);
  return problem.empty() ? 0 : 1;
}

}  // namespace weft::testing
