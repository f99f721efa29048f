// From a choice to hops. A Slice says of a box, or part of a box, of a task: which ranks send it how often, and by
// which rank it enters each host that lacks it. A strategy turns that into trees of hops, gathered in jobs: chunks that
// travel over the same span of time.
#pragma once

#include <vector>

#include "weft/reshard/schedule/schedule.h"
#include "weft/reshard/schedule/sites.h"

namespace weft {

class Resources;

struct Outlet {
  int rank = 0, copies = 0;  // to that many other hosts
};

// The copies of all outlets together are as many as `entry`; at least one comes from a host that holds the box. For
// strategies other than broadcast only the first outlet counts: the rank that sends.
struct Slice {
  int task = 0;
  Box box;
  std::vector<Outlet> outlets;  // ranks of doors
  std::vector<int> entry;       // per wanting site: the rank it enters by
};

// Bytes that a job moves through one resource (resources.h).
struct Use {
  int resource = 0;
  double bytes = 0;
};

struct Job {
  std::vector<Chunk> chunks;
  std::vector<Use> uses;
  double seconds = 0;  // the shortest it can take, alone on the network

  void set_times(double begin_s, double end_s) {  // of all its chunks
    for (Chunk& chunk : chunks) chunk.begin_s = begin_s, chunk.end_s = end_s;
  }
};

std::int64_t bytes_of(const Task& task, const Box& box);

// A chain from `root` through the hosts that lack the box, those of the root's rack first.
Slice chain(const Task& task, int index, const Sites& sites, const Network& network, int root,
            const std::vector<int>& entry);
// The first rank of every host that lacks the box.
std::vector<int> first_entries(const Sites& sites);

// Appends the jobs of a slice.
void add_jobs(Strategy strategy, const Slice& slice, const Task& task, const Sites& sites, const Resources& resources,
              std::vector<Job>& jobs);

}  // namespace weft
