#include "weft/sim/step/graph.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/sim/step/run.h"
#include "weft/sim/step/writer.h"

namespace weft::netsim {
namespace {

const Link kGraphLink{1e9, 1e-6};

// Two ranks: each computes and enters an all_reduce; rank 0 sends to rank 1.
StepGraph pair_graph() {
  GraphWriter writer("pair", {});
  StepGraph& graph = writer.graph();
  graph.num_ranks = 2;
  graph.communicators.push_back(communicator_of("all", 2, {{0, 1}}));
  const std::int32_t shape = writer.shape({SpaceKind::all_reduce, 2, 4000});
  for (int rank = 0; rank < 2; ++rank) {
    ProgramWriter program;
    const std::int32_t make = program.compute(writer.name("make"), 1e-6, {});
    program.collective(writer.name("sum"), shape, 0, {make});
    StepNode node;
    node.kind = rank == 0 ? NodeKind::send : NodeKind::receive;
    node.name = writer.name("hand over"), node.communicator = 0, node.peer = 1 - rank, node.bytes = 1000;
    program.transfer(node, {make});
    graph.programs.push_back(program.take());
    graph.program_of.push_back(rank);
  }
  return writer.take();
}

TEST(StepGraph, TimesAreThoseOfLinksAndComputing) {
  StepGraph graph = pair_graph();
  check_graph(graph);
  const Topology network = full_topology(2, kGraphLink);
  for (StepProgram& program : graph.programs) program.nodes.erase(program.nodes.begin() + 1);  // sends alone
  for (StepProgram& program : graph.programs) program.nodes[1].tag = 7;
  check_graph(graph);
  EXPECT_EQ(simulate_step(graph, network).net.end, 1'000'000 + 1'000'000 + 1'000'000);  // make, bytes, latency
}

TEST(StepGraph, OneCollectiveIsThePlansOwnRun) {
  StepGraph graph = pair_graph();
  for (StepProgram& program : graph.programs) program.nodes.pop_back();
  const Topology network = full_topology(2, kGraphLink);
  const Time alone = simulate(graph.shapes[0].plan, network).end;
  EXPECT_EQ(simulate_step(graph, network).net.end, 1'000'000 + alone);
}

TEST(StepGraph, RefusesWhatCannotRun) {
  const auto says = [](auto&& change) {
    StepGraph graph = pair_graph();
    change(graph);
    return refusal([&] { check_graph(graph); });
  };
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(says([](StepGraph& g) { g.programs[1].nodes[2].bytes = 999; }), "is of 999 bytes, but rank 0 sends 1000");
  expect(says([](StepGraph& g) { g.programs[1].nodes.pop_back(); }), "is received by nobody: rank 1");
  expect(says([](StepGraph& g) { g.programs[0].nodes.pop_back(); }), "waits for rank 0, which sends nothing");
  expect(says([](StepGraph& g) { g.programs[1].nodes.erase(g.programs[1].nodes.begin() + 1); }),
         "is entered 1 times by a group of 2 ranks");
  expect(says([](StepGraph& g) {
           g.shapes.push_back(g.shapes[0]);
           g.shapes[1].name = "another";
           g.programs[1].nodes[1].shape = 1;
         }),
         "make them equal in kind and size");
  expect(says([](StepGraph& g) {
           g.programs[0].needs = {1};
           g.programs[0].nodes[0].needs = g.programs[0].nodes[1].needs = {0, 1};
         }),
         "waits for itself");
  expect(says([](StepGraph& g) { g.programs[0].nodes[0].takes = -1; }), "takes -1 ps; give 0 or more");
  expect(refusal([] { communicator_of("g", 2, {{0, 2}}); }), "names rank 2, but there are 2");
  expect(refusal([] { communicator_of("g", 2, {{0, 0}}); }), "names rank 0 twice");
}

// Rank 0 enters the sum before it sends, rank 1 only after it has received.
TEST(StepGraph, WhatGetsStuckSaysWhoWaitsForWhom) {
  StepGraph graph = pair_graph();
  graph.programs[0].needs.push_back(1);
  graph.programs[0].nodes[2].needs = {2, 3};
  graph.programs[1].needs.push_back(2);
  graph.programs[1].nodes[1].needs = {2, 3};
  const std::string text = refusal([&] { simulate_step(graph, full_topology(2, kGraphLink)); });
  EXPECT_NE(text.find("rank 0 waits in collective \"sum\" for rank 1, which has not come to it; rank 1 waits in "
                      "receive \"hand over\" for rank 0"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace weft::netsim
