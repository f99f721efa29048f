// A file of this test alone, gone when it ends.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace weft::testing {

class CliFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string path_ = fmt::format("{}/weft_cli_plan_{}.json", ::testing::TempDir(), getpid());
};

}  // namespace weft::testing
