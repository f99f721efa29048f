// Who sends what when: a schedule of chunks. The model (docs/resharding.md): a transfer between hosts takes its bytes
// from the sender's NIC and the receiver's NIC for as long as it lasts, and from both uplinks between racks; a NIC's
// transfers share its rate in each direction; inside a host moves are free; a chunk flows along its hops at once, as a
// pipelined chain of small tiles does. Planners are pure: a node budget and a seed, no clock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/cluster/network.h"
#include "weft/reshard/reshard.h"

namespace weft {

// How one task reaches its receivers.
//   send_recv         its sender sends it to every receiver
//   local_allgather   to every host one part per device, which then hand their parts to each other; where a box cannot
//   be cut
//                     into equal parts, send_recv
//   global_allgather  one part to every receiver, which then pass them round a ring over all receivers
//   broadcast         a chain (or tree) of hosts: a byte enters each host once, and spreads in it by shared memory
enum class Strategy { automatic, send_recv, local_allgather, global_allgather, broadcast };  // automatic: "auto"
// Who sends, and in which order.
//   naive    the first replica, in the order of the tasks
//   balance  the least loaded host that holds it, largest task first
//   dfs      depth-first search over (task, sender) with pruning, within a node budget
//   greedy   rounds of host-disjoint tasks, the best of many random ones
//   ours     a replicated slice may be cut among several senders, so that no NIC idles: makespan equals lower_bound
//            wherever transfers can share NICs so
enum class Choice { naive, balance, dfs, greedy, ours };

std::string_view to_string(Strategy strategy);
std::string_view to_string(Choice choice);
Strategy parse_strategy(std::string_view name);
Choice parse_choice(std::string_view name);

struct Hop {
  int from = 0, to = 0;  // ranks of the world
  friend bool operator==(const Hop&, const Hop&) = default;
};

// A part of a task that travels together. Its hops are a tree: each begins at `root`, which holds the box, or where an
// earlier one ended, and ends at a receiver. Over all chunks of a task every receiver gets every element of the box
// once: at the end of a hop, or as the root of the chunk (a copy inside its own memory; a chunk without hops is that
// alone). Where several hosts hold a box, or meshes overlap, several chunks of one box reach different receivers.
struct Chunk {
  int task = 0;
  Box box;  // in the destination tensor's coordinates
  std::int64_t bytes = 0;
  int root = 0;
  std::vector<Hop> hops;
  double begin_s = 0, end_s = 0;  // when it travels, at an even rate; both 0 where no hop leaves a host
};

struct Schedule {
  Strategy strategy = Strategy::broadcast;
  Choice choice = Choice::ours;
  std::vector<Chunk> chunks;  // by begin_s, then as they should be sent
  double makespan_s = 0;
  double lower_bound_s = 0;  // no schedule of these tasks on this network is shorter (bound.h)
  bool optimal = false;      // proved: makespan equals the bound
  std::string why;
};

struct ScheduleOptions {
  Strategy strategy = Strategy::broadcast;  // not automatic: build.h prices those
  Choice choice = Choice::ours;
  std::int64_t node_budget = 200'000;
  std::uint64_t seed = 1;
};

Schedule schedule(const std::vector<Task>& tasks, const Network& network, const ScheduleOptions& options = {});

// What is wrong with a schedule, one sentence each; empty: every receiver gets every element of its tasks once, from
// ranks that have it, and no NIC or uplink ever carries more than its rate.
std::vector<std::string> problems(const Schedule& schedule, const std::vector<Task>& tasks, const Network& network);

}  // namespace weft
