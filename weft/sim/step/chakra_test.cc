#include "weft/sim/step/chakra.h"

#include <gtest/gtest.h>

#include "weft/base/os/new_file.h"
#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"
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

// Two ranks, written by hand as the format says: a product of 3 us, then an all_reduce of 1 MiB.
std::string field(int number, std::uint64_t value) {
  std::string out(1, static_cast<char>(number << 3));
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
std::string bytes_field(int number, const std::string& text) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(text.size()) + text;
}
std::string attribute(const std::string& name, int kind, std::uint64_t value) {
  std::string tag;
  const unsigned whole = static_cast<unsigned>(kind) << 3;
  if (whole >= 128)
    tag = {static_cast<char>(whole | 128), static_cast<char>(whole >> 7)};
  else
    tag = std::string(1, static_cast<char>(whole));
  return bytes_field(10, bytes_field(1, name) + tag + field(0, value).substr(1));
}
std::string message(const std::string& text) { return std::string(1, static_cast<char>(text.size())) + text; }
const std::string kMetadataMessage = message(bytes_field(1, "0.0.4"));
std::string product(std::uint64_t micros) {
  return message(field(1, 1) + bytes_field(2, "product") + field(3, 4) + field(7, micros));
}
std::string sum(const std::string& size) {
  return message(field(1, 2) + bytes_field(2, "sum") + field(3, 7) + field(5, 1) + attribute("comm_type", 9, 0) + size);
}
const std::string kTrace = kMetadataMessage + product(3) + sum(attribute("comm_size", 9, 1 << 20));

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

TEST(Chakra, RefusalsNameFileNodeAndRemedy) {
  const auto expect = [](const std::string& zero, const std::string& one, const char* part) {
    const std::string text = refusal([&] { both(zero, one); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(kTrace, kMetadataMessage + product(3) + sum(attribute("comm_size", 9, 1 << 10)),
         "\"sum\" of rank 1 is \"all_reduce, 2 ranks, 1024 bytes\", but for rank 0");
  expect(kTrace, kMetadataMessage + product(3), "is entered 1 times by a group of 2 ranks");
  expect(kMetadataMessage + product(0), kTrace, "t.0.et: node 1 \"product\": neither duration_micros nor \"num_ops\"");
  expect(kTrace, kMetadataMessage + product(3) + sum(bytes_field(10, bytes_field(1, "comm_size"))),
         "t.1.et: node 2 \"sum\": attribute \"comm_size\" is no whole number");
  expect(kTrace, kMetadataMessage + product(3) + sum(""), "attribute \"comm_size\" is missing; add it");
  expect(kTrace, kMetadataMessage + sum(attribute("comm_size", 9, 1)), "needs node 1, which is not there");
  expect(kTrace, kTrace + product(3), "t.1.et: node 1 is there twice");
  expect("", kTrace, "t.0.et: empty");
  expect(kTrace, kMetadataMessage + message(field(1, 1) + field(3, 9)), "a node of type 9; use 1 to 7");
  const std::string loop = message(field(1, 1) + bytes_field(2, "x") + field(3, 4) + field(7, 1) + field(5, 1));
  expect(kMetadataMessage + loop, kMetadataMessage, "waits for itself");
  const auto send = [](int type, std::uint64_t size, int from, int to) {
    return message(field(1, 5) + bytes_field(2, "s") + field(3, static_cast<std::uint64_t>(type)) +
                   attribute("comm_size", 9, size) + attribute("comm_src", 7, static_cast<std::uint64_t>(from)) +
                   attribute("comm_dst", 7, static_cast<std::uint64_t>(to)));
  };
  expect(kMetadataMessage + send(5, 8, 0, 1), kMetadataMessage + send(6, 9, 0, 1), "is of 9 bytes, but rank 0 sends 8");
  expect(kMetadataMessage + send(5, 8, 0, 7), kMetadataMessage, "is for rank 7, but there are 2");
  expect(kMetadataMessage + send(5, 8, 1, 0), kMetadataMessage, "but this is the trace of rank 0");
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
  Mutator mutator(kTrace, 18);
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
