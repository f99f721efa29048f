// Networks, plans and traces that cannot be simulated: `weft sim net` says in one sentence which file, node and rank,
// and what to do, with exit code 2. Never 0 seconds, never a hang.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"
#include "weft/sim/step/chakra_words_test.h"

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using namespace netsim::chakra_words;  // NOLINT: the vocabulary of traces

class SimNetBad : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.file(name), std::ios::binary) << text;
    return folder_.file(name);
  }
  // `words` behind `weft sim net`.
  static void expect(std::vector<std::string> words, std::initializer_list<const char*> parts) {
    words.insert(words.begin(), {"sim", "net"});
    const Ended ended = weft(words);
    EXPECT_EQ(ended.code, 2) << *parts.begin() << ": " << ended.out << ended.err;
    EXPECT_TRUE(ended.out.empty()) << ended.out;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    for (const char* part : parts) EXPECT_NE(ended.err.find(part), std::string::npos) << part << ": " << ended.err;
  }
  // Two ranks on a network of two; `more` words, as --groups FILE.
  void expect_trace(const std::string& zero, const std::string& one, std::initializer_list<const char*> parts,
                    const std::vector<std::string>& more = {}) const {
    write("t.0.et", kMetadata + zero);
    write("t.1.et", kMetadata + one);
    std::vector<std::string> words{folder_.file("t"), "--network", pair()};
    words.insert(words.end(), more.begin(), more.end());
    expect(words, parts);
  }
  std::string pair() const {
    return write("pair.json",
                 R"({"name": "p", "kind": "full", "ranks": 2, "link": {"bytes_per_s": 1e9, "latency_s": 1e-6}})");
  }
  std::string plan(int ranks) const {
    const std::string path = folder_.file("plan.json");
    EXPECT_EQ(weft({"plan", "ar", "--ranks", std::to_string(ranks), "--m", "64", "--n", "64", "--route", "ring",
                    "--save", path})
                  .code,
              0);
    return path;
  }

  const ScratchFolder folder_;
  const std::string product_ = compute(1, 3);
  const std::string sum_ = all_reduce(2, needs(1) + attribute("comm_size", 9, 1 << 20));
};

TEST_F(SimNetBad, TracesThatDoNotFitTogether) {
  const std::string size = attribute("comm_size", 9, 1 << 10);
  expect_trace(transfer(5, 5, 8, 0, 1), transfer(5, 6, 9, 0, 1), {"is of 9 bytes, but rank 0 sends 8", "rank 1"});
  expect_trace(product_ + sum_, product_, {"\"sum\" of rank 0 is entered 1 times by a group of 2 ranks"});
  expect_trace(product_ + sum_, product_ + all_reduce(2, size), {"\"sum\" of rank 1", "1024 bytes", "make them equal"});
  expect_trace(compute(1, 3, needs(2)) + compute(2, 3, needs(1)), product_, {"of rank 0 waits for itself", "cycle"});
  expect_trace(product_, compute(7, 0), {"t.1.et: node 7 \"product\"", "neither duration_micros nor \"num_ops\""});
  expect_trace(product_, compute(7, 0, attribute("num_ops", 9, 1000)), {"node 7", "give --chip or --cluster"});
  expect_trace("", "", {"nothing computes and nothing moves"});
  const auto turn = [](int own, int other) {
    return transfer(2, 6, 8, other, own) + transfer(3, 5, 8, own, other, needs(2));
  };
  expect_trace(turn(0, 1), turn(1, 0), {"gets stuck", "rank 0 waits in receive", "for rank 1"});
}

TEST_F(SimNetBad, AttributesOfAnotherType) {
  const auto sized = [&](const std::string& attributes) { return product_ + all_reduce(2, needs(1) + attributes); };
  expect_trace(product_ + sum_, sized(text_attribute("comm_size", "8")),
               {"t.1.et: node 2 \"sum\": attribute \"comm_size\" is no whole number"});
  expect_trace(product_ + sum_, sized(attribute("comm_size", 40, 8)), {"t.1.et", "has a value of kind 40"});
  expect_trace(product_ + sum_, sized(attribute("comm_size", 9, 8) + attribute("pg_name", 9, 0)),
               {"t.1.et: node 2", "\"pg_name\" is no text"});
  expect_trace(product_ + sum_, sized(""), {"t.1.et: node 2 \"sum\": attribute \"comm_size\" is missing"});
}

TEST_F(SimNetBad, GroupsOfOneRankAndOfRanksThatThereAreNot) {
  const std::string size = attribute("comm_size", 9, 64);
  const std::string one = all_reduce(2, size + text_attribute("pg_name", "a"));
  const auto groups = [&](const char* text) {
    return std::vector<std::string>{"--groups", write("groups.json", text)};
  };
  expect_trace(product_ + one, product_, {"t.0.et: node 2 \"sum\" is over a group of one rank"},
               groups(R"({"a": [0]})"));
  expect_trace(product_ + one, product_ + one, {"group \"a\" names rank 7, but there are 2"},
               groups(R"({"a": [0, 7]})"));
  expect_trace(product_ + one, product_ + one, {"group \"a\" names rank 0 twice"}, groups(R"({"a": [0, 0]})"));
  expect_trace(product_ + one, product_ + one, {"\"a\"", "give it with --groups"});
  expect_trace(product_, product_, {"groups.json"}, groups(R"({"a": [0)"));
}

TEST_F(SimNetBad, TracesThatAreCutShort) {
  const std::string whole = kMetadata + product_ + sum_;
  write("t.1.et", whole);
  int refused = 0;
  for (std::size_t size = 0; size < whole.size(); size += 5) {
    write("t.0.et", whole.substr(0, size));
    const Ended ended = weft({"sim", "net", folder_.file("t"), "--network", pair()});
    EXPECT_EQ(ended.code, 2) << size << ": " << ended.out;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    ++refused;
  }
  EXPECT_GT(refused, 10);
}

TEST_F(SimNetBad, NetworksThatCarryNothing) {
  const std::string path = plan(2);
  const auto network = [&](const char* text, std::initializer_list<const char*> parts) {
    expect({path, "--network", write("network.json", text)}, parts);
  };
  network(R"({"name": "n", "kind": "ring", "ranks": 2, "link": {"bytes_per_s": 0, "latency_s": 0}})",
          {"network.json", "\"bytes_per_s\" is 0"});
  network(R"({"name": "n", "kind": "ring", "ranks": 2, "link": {"bytes_per_s": -1e9, "latency_s": 0}})",
          {"network.json", "\"bytes_per_s\" is -1"});
  network(R"({"name": "n", "kind": "ring", "ranks": 2, "link": {"bytes_per_s": 1e9, "latency_s": -1}})",
          {"network.json", "\"latency_s\" is -1"});
  network(R"({"name": "n", "kind": "graph", "ranks": ["a", "b"], "switches": ["s"],
              "links": [{"from": "a", "to": "s", "bytes_per_s": 1e9, "latency_s": 0}]})",
          {"network.json", "no way leads from b to a"});
  network(R"({"name": "n", "kind": "torus", "dims": [2, 0], "link": {"bytes_per_s": 1e9, "latency_s": 0}})",
          {"network.json", "dims"});
  expect({plan(4), "--network", pair()}, {"is for 4 ranks, but network \"p\" has 2", "use a larger network"});
}

TEST_F(SimNetBad, APlanThatGetsStuckNamesWhoWaitsForWhom) {
  const std::string path = plan(2);
  std::ifstream file(path);
  nlohmann::json saved = nlohmann::json::parse(file);
  int changed = 0;
  for (nlohmann::json& rule : saved["rules"])
    if (rule.contains("waits"))
      for (nlohmann::json& wait : rule["waits"])  // for credits of this run, which come after
        changed += static_cast<int>(wait.erase("lag"));
  ASSERT_GT(changed, 0);
  write("plan.json", saved.dump());
  expect({path, "--network", pair(), "--unproved"}, {"gets stuck", "rank 0", "waits for"});
  expect({path, "--network", pair()}, {"plan"});
}

}  // namespace
}  // namespace weft::testing
