#include "weft/sim/step/text_workload.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/sim/step/run.h"

namespace weft::netsim {
namespace {

const std::string kText =
    "HYBRID_TRANSFORMER model_parallel_NPU_group: 4 ep: 1 pp: 1\n"
    "2\n"
    "one -1 500000 ALLREDUCE 16777216 600000 ALLREDUCE 16777216 700000 ALLREDUCE 65536 100\n"
    "two -1 1000 NONE 0 1000 NONE 0 1000 ALLGATHER 4096 100\n";

const Topology kNetwork = rails_topology(4, 4, {100e9, 500e-9}, {25e9, 1e-6});

TEST(TextWorkload, LayersGoForwardAndBack) {
  const StepGraph graph = parse_text_workload(kText, "w.txt", {.ranks = 16});
  check_graph(graph);
  const StepResult result = simulate_step(graph, kNetwork), every = simulate_step(graph, kNetwork, {Ranks::every});
  EXPECT_EQ(result.net.simulated, 1);
  EXPECT_EQ(result.net.end, every.net.end);
  EXPECT_EQ(result.net.compute, 1'803'200'000);
  // Twice the ring of four ranks between computing, then what of the last sum nothing hides.
  EXPECT_GT(result.net.end, result.net.compute);
  const StepResult fused =
      simulate_step(parse_text_workload(kText, "w.txt", {.ranks = 16, .trace = {.fuse = {"one"}}}), kNetwork);
  EXPECT_LT(fused.net.end, result.net.end);
}

TEST(TextWorkload, ThePolicyChoosesGroups) {
  std::string data = kText;
  data.replace(0, data.find('\n'), "DATA");
  EXPECT_EQ(parse_text_workload(data, "w", {.ranks = 16}).axes, (std::vector<int>{16, 1}));
  data.replace(0, data.find('\n'), "MODEL");
  EXPECT_EQ(parse_text_workload(data, "w", {.ranks = 16}).axes, (std::vector<int>{1, 16}));
  data.replace(0, data.find('\n'), "HYBRID_DATA_MODEL");
  EXPECT_EQ(parse_text_workload(data, "w", {.ranks = 16, .model_ranks = 8}).axes, (std::vector<int>{2, 8}));
  EXPECT_NE(refusal([&] { parse_text_workload(data, "w", {.ranks = 16}); }).find("add model_parallel_NPU_group: N"),
            std::string::npos);
}

TEST(TextWorkload, RefusalsNameLineWordAndRemedy) {
  const auto expect = [](const std::string& from, const std::string& to, const char* part) {
    std::string text = kText;
    text.replace(text.find(from), from.size(), to);
    const std::string said = refusal([&] { parse_text_workload(text, "w.txt", {.ranks = 16}); });
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect("\n2\n", "\n3\n", "w.txt: line 5: the file ends, but line 2 says 3 layers");
  expect("\n2\n", "\nx\n", "w.txt: line 2: \"x\" is no whole number");
  expect("500000", "-5", "w.txt: line 3: \"-5\" is no whole number");
  expect("ALLREDUCE", "ALLREDUCED", "w.txt: line 3: unknown collective \"ALLREDUCED\"");
  expect("16777216", "0", "w.txt: line 3: ALLREDUCE of 0 bytes");
  expect("group: 4", "group: 5", "groups of 5 do not share 16 ranks");
  expect(" 100\ntwo", "\ntwo", "w.txt: line 3: 11 words; a layer has 12");
  EXPECT_NE(refusal([] { parse_text_workload("", "w", {.ranks = 2}); }).find("line 1 is empty"), std::string::npos);
}

TEST(TextWorkload, MutantsAreRefusedInASentence) {
  FileMutator mutator(kText, 5);
  for (int i = 0; i < 3000; ++i) try {
      TextOptions options{.ranks = 16};
      options.trace.plans.prove = false;
      parse_text_workload(mutator.next(), "w", options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input) << error.what();
    }
}

}  // namespace
}  // namespace weft::netsim
