// `weft draw` as its users see it: a picture from a file, a JSON object, and sentences for files that are no charts.
#include <cstdio>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

std::string chart_file(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(DrawCommand, WritesThePicture) {
  const std::string chart = chart_file("weft_bar.json", R"({"chart": "bar", "title": "times", "series": ["ms"],
    "groups": [{"name": "sequential", "values": [785]}, {"name": "fused", "values": [767]}]})");
  const std::string svg = ::testing::TempDir() + "/weft_bar.svg";
  const Ended printed = weft({"draw", chart});
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(printed.out.find("<svg "), 0u);
  const Ended ended = weft({"draw", chart, "--svg", svg, "--json"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const nlohmann::json out = nlohmann::json::parse(ended.out);
  EXPECT_EQ(out["svg"], svg);
  EXPECT_EQ(out["bytes"], printed.out.size());
  std::ifstream file(svg);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), printed.out);
  std::remove(svg.c_str());
}

TEST(DrawCommand, RefusesWhatIsNoChart) {
  const Ended missing = weft("draw /no/such/chart.json");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("/no/such/chart.json"), std::string::npos);
  const Ended odd = weft({"draw", chart_file("weft_odd.json", R"({"chart": "pie"})")});
  EXPECT_EQ(odd.code, 2);
  EXPECT_NE(odd.err.find("use line, bar or heat"), std::string::npos) << odd.err;
  EXPECT_EQ(weft("draw").code, 2);
}

}  // namespace
}  // namespace weft::testing
