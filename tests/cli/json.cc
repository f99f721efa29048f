#include "tests/cli/json.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace weft::testing {

nlohmann::json parsed(const Ended& ended) {
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 1) << "one object on one line: " << ended.out;
  return nlohmann::json::parse(ended.out, nullptr, false);
}

void expect_keys(const nlohmann::json& object, const std::vector<std::string>& keys) {
  ASSERT_TRUE(object.is_object());
  for (const std::string& key : keys) EXPECT_TRUE(object.contains(key)) << key << " is missing in " << object.dump();
}

}  // namespace weft::testing
