#include "weft/sim/step/chakra.h"

#include <gtest/gtest.h>

#include "weft/base/os/new_file.h"
#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/sim/step/chakra_words_test.h"
#include "weft/sim/step/run.h"
#include "weft/sim/step/training.h"

namespace weft::netsim {
namespace {

StepGraph traced_step(Overlap overlap) {
  Workload w;
  w.name = "small", w.batch = 1;
  w.hidden = 256, w.layers = 2, w.heads = 4, w.kv_heads = 4, w.head_dim = 64, w.ffn = 512, w.sequence = 128;
  TrainingOptions options;
  options.flops_per_s = 1e12, options.bytes_per_s = 1e12, options.forward = overlap;
  options.reduction = Reduction::reduce_scatter;
  return training_step(w, {.tp = 2, .pp = 2, .dp = 2, .micro_batches = 2}, options);
}

std::string saved(const StepGraph& graph, const ScratchFolder& folder) {
  const std::string prefix = folder.file("step");
  for (int rank = 0; rank < graph.num_ranks; ++rank)
    write_file(fmt::format("{}.{}.et", prefix, rank), chakra_text(graph, rank));
  write_file(prefix + ".groups.json", chakra_groups(graph));
  return prefix;
}

TEST(Chakra, WhatIsWrittenIsReadToThePicosecond) {
  const ScratchFolder folder;
  const StepGraph graph = traced_step(Overlap::bulk);
  const std::string prefix = saved(graph, folder);
  const StepGraph again = load_chakra(prefix, prefix + ".groups.json", {});
  const Topology network = rails_topology(4, 2, {100e9, 500e-9}, {25e9, 1e-6});
  EXPECT_EQ(simulate_step(again, network).net.end, simulate_step(graph, network).net.end);
  EXPECT_EQ(simulate_step(again, network).net.bytes, simulate_step(graph, network).net.bytes);
}

TEST(Chakra, FusedPairsComeBackByTheirPattern) {
  const ScratchFolder folder;
  const StepGraph graph = traced_step(Overlap::fused);
  const std::string prefix = saved(graph, folder);
  const Topology network = rails_topology(4, 2, {10e9, 500e-9}, {25e9, 1e-6});
  TraceOptions options;
  const Time bulk = simulate_step(load_chakra(prefix, prefix + ".groups.json", options), network).net.end;
  options.fuse = {"fc2 + *", "op + *"};
  const StepGraph fused = load_chakra(prefix, prefix + ".groups.json", options);
  EXPECT_LT(simulate_step(fused, network).net.end, bulk);
  EXPECT_NE(refusal([&] {
              load_chakra(prefix, prefix + ".groups.json", {.fuse = {"fc3*"}});
            }).find("--fuse fc3* matches no compute node"),
            std::string::npos);
}

using namespace chakra_words;  // NOLINT: the vocabulary of traces

// Two ranks, written by hand as the format says: a product of 3 us, then an all_reduce of 1 MiB.
std::string product(std::uint64_t micros) { return compute(1, micros); }
std::string sum(const std::string& size) { return all_reduce(2, needs(1) + size); }
const std::string kTrace = kMetadata + product(3) + sum(attribute("comm_size", 9, 1 << 20));

StepGraph both(const std::string& zero, const std::string& one, const TraceOptions& options = {}) {
  return graph_of_trace("t", {parse_chakra(zero, "t.0.et", 0, options), parse_chakra(one, "t.1.et", 1, options)}, {},
                        options);
}

TEST(Chakra, ATraceByHandTakesItsTime) {
  const Topology network = full_topology(2, {1e9, 1e-6});
  const StepResult result = simulate_step(both(kTrace, kTrace), network);
  EXPECT_EQ(result.net.end, 3'000'000 + 2 * ((1 << 19) * 1000 + 1'000'000));  // halves there and back
  const StepResult fused = simulate_step(both(kTrace, kTrace, {.fuse = {"prod*"}}), network);
  EXPECT_LT(fused.net.end, result.net.end);
}

// Each receives before it sends.
TEST(Chakra, ATraceThatGetsStuckNamesWhoWaitsForWhom) {
  const auto rank = [](int own, int other) {
    return kMetadata + compute(1, 3) + transfer(2, 6, 8, other, own, needs(1)) +
           transfer(3, 5, 8, own, other, needs(2));
  };
  const std::string text = refusal([&] { simulate_step(both(rank(0, 1), rank(1, 0)), full_topology(2, {1e9, 1e-6})); });
  for (const char* part :
       {"gets stuck", "rank 0 waits in receive \"s\" for rank 1", "rank 1 waits in receive \"s\" for rank 0"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Chakra, RefusalsNameFileNodeAndRemedy) {
  const auto expect = [](const std::string& zero, const std::string& one, const char* part) {
    const std::string text = refusal([&] { both(zero, one); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(kTrace, kMetadata + product(3) + sum(attribute("comm_size", 9, 1 << 10)),
         "\"sum\" of rank 1 is \"all_reduce, 2 ranks, 1024 bytes\", but for rank 0");
  expect(kTrace, kMetadata + product(3), "is entered 1 times by a group of 2 ranks");
  expect(kMetadata + product(0), kTrace, "t.0.et: node 1 \"product\": neither duration_micros nor \"num_ops\"");
  expect(kTrace, kMetadata + product(3) + sum(bytes_field(10, bytes_field(1, "comm_size"))),
         "t.1.et: node 2 \"sum\": attribute \"comm_size\" is no whole number");
  expect(kTrace, kMetadata + product(3) + sum(""), "attribute \"comm_size\" is missing; add it");
  expect(kTrace, kMetadata + sum(attribute("comm_size", 9, 1)), "needs node 1, which is not there");
  expect(kTrace, kTrace + product(3), "t.1.et: node 1 is there twice");
  expect("", kTrace, "t.0.et: empty");
  expect(kTrace, kMetadata + message(field(1, 1) + field(3, 9)), "a node of type 9; use 1 to 7");
  const std::string loop = compute(1, 1, needs(1));
  expect(kMetadata + loop, kMetadata, "waits for itself");
  const auto send = [](int type, std::uint64_t size, int from, int to) { return transfer(5, type, size, from, to); };
  expect(kMetadata + send(5, 8, 0, 1), kMetadata + send(6, 9, 0, 1), "is of 9 bytes, but rank 0 sends 8");
  expect(kMetadata + send(5, 8, 0, 7), kMetadata, "is for rank 7, but there are 2");
  expect(kMetadata + send(5, 8, 1, 0), kMetadata, "but this is the trace of rank 0");
  expect(kMetadata + send(5, 8, 0, 1), kMetadata, "is received by nobody: rank 1 has no receive");
  expect(kMetadata + send(6, 8, 1, 0), kMetadata, "waits for rank 1, which sends nothing");
  expect(kMetadata, kMetadata, "t: nothing computes and nothing moves");
  expect(kMetadata + compute(1, 0, attribute("num_ops", 9, 0)), kTrace, "\"num_ops\" says how long it takes");
  expect(kTrace, kMetadata + product(3) + sum(attribute("comm_size", 40, 8)), "has a value of kind 40");
  expect(kTrace, kMetadata + product(3) + sum(attribute("comm_size", 9, 8) + attribute("pg_name", 9, 1)),
         "attribute \"pg_name\" is no text");
  EXPECT_NE(refusal([] { parse_chakra_groups("[1]", "g.json"); }).find("g.json: no object of groups"),
            std::string::npos);
  EXPECT_NE(refusal([] { load_chakra("/nowhere/x", "", {}); }).find("no file /nowhere/x.0.et"), std::string::npos);
}

// Every beginning of a trace is refused or is a trace; so are its mutants. None takes 0 seconds where it computes.
TEST(Chakra, TruncatedAndFuzzedTracesAreRefusedInASentence) {
  const std::string whole = chakra_text(traced_step(Overlap::bulk), 0);
  int refused = 0;
  for (std::size_t size = 0; size < whole.size(); size += 7) try {
      parse_chakra(whole.substr(0, size), "t", 0, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      ++refused;
    }
  EXPECT_GT(refused, 100);
  FileMutator mutator(kTrace, 18);
  for (int i = 0; i < 5000; ++i) {
    const std::string mutant = mutator.next();
    try {
      const StepGraph graph = both(mutant, kTrace);
      EXPECT_GT(simulate_step(graph, full_topology(2, {1e9, 1e-6})).net.end, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input) << error.what();
    }
  }
}

}  // namespace
}  // namespace weft::netsim
