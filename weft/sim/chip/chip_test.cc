// Chips as files: those that are shipped load, and what cannot be used is refused by file, key and remedy.
#include "weft/sim/chip/chip.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"

namespace weft::sim {
namespace {

std::filesystem::path folder() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path() / "clusters/chips";
}

nlohmann::json paper() { return load_json((folder() / "t3-paper.json").string()); }

std::string refusal(const nlohmann::json& chip) {
  try {
    parse_chip(chip.dump(), "my.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    return error.what();
  }
  return "accepted";
}

void expect_all(const std::string& sentence, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(sentence.find(word), std::string::npos) << sentence << " lacks " << word;
}

TEST(Chip, EveryShippedFileLoadsUnderItsName) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    EXPECT_EQ(load_chip(entry.path().string()).name, entry.path().stem().string());
    ++count;
  }
  EXPECT_GE(count, 4);
}

TEST(Chip, EveryNumberHasASource) {
  const nlohmann::json chip = paper();
  for (const Knob& knob : knobs()) {
    const std::string source = chip.at(std::string(knob.key)).at("source");
    EXPECT_EQ(source.find("free") != std::string::npos, knob.free) << knob.key << ": " << source;
  }
}

TEST(Chip, RefusesWhatItCannotUse) {
  nlohmann::json zero = paper();
  zero["dram_rate"]["value"] = "0 GB/s";
  expect_all(refusal(zero), {"my.json", "dram_rate", "0 GB/s"});
  nlohmann::json unit = paper();
  unit["link_latency"]["value"] = "500 parsecs";
  expect_all(refusal(unit), {"my.json", "link_latency", "parsecs", "ns"});
  nlohmann::json number = paper();
  number["llc_bytes"]["value"] = 16;
  expect_all(refusal(number), {"my.json", "llc_bytes", "16 MiB"});
  nlohmann::json missing = paper();
  missing.erase("cus");
  expect_all(refusal(missing), {"my.json", "cus", "missing"});
  nlohmann::json unsourced = paper();
  unsourced["cus"].erase("source");
  expect_all(refusal(unsourced), {"my.json", "cus", "source"});
  nlohmann::json typo = paper();
  typo["dram_rte"] = typo["dram_rate"];
  expect_all(refusal(typo), {"my.json", "dram_rte", "t3-paper.json"});
  nlohmann::json ways = paper();
  ways["tracker_ways"]["value"] = 7;
  expect_all(refusal(ways), {"my.json", "tracker_ways", "divisor"});
  nlohmann::json steps = paper();
  steps["mca_steps"]["value"] = {{0.1, 30}, {0.5, 5}};
  expect_all(refusal(steps), {"my.json", "mca_steps", "highest"});
  nlohmann::json range = paper();
  range["cus"]["value"] = -3;
  expect_all(refusal(range), {"my.json", "cus", "-3"});
}

TEST(Chip, KnobsAreReadAndSet) {
  Chip chip = parse_chip(paper().dump(), "my.json");
  set_knob(&chip, "link_rate", 150e9);
  EXPECT_EQ(knob(chip, "link_rate"), 150e9);
  set_knob(&chip, "cus", 160);
  EXPECT_EQ(chip.cus, 160);
  EXPECT_THROW(set_knob(&chip, "link_rate", 0), Error);
  EXPECT_THROW(knob(chip, "no_such"), Error);
}

}  // namespace
}  // namespace weft::sim
