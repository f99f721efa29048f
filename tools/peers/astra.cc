// ASTRA-sim's congestion-aware network beside `weft sim net`: the same collectives as messages on its links, for
// tools/peers/compare.py. Not part of the build; links with ASTRA-sim's analytical network.
// Prints nanoseconds of simulated time and seconds of its own.
//
//   astra NETWORK.yml ring BYTES          all-reduce of BYTES by a ring: chunk by chunk to the next, 2 (N - 1) rounds
//   astra NETWORK.yml a2a BYTES           all-to-all of BYTES a pair, peers r + 1, r + 2, ..., all at once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/EventQueue.h"
#include "common/NetworkParser.h"
#include "congestion_aware/Chunk.h"
#include "congestion_aware/Helper.h"

using namespace NetworkAnalytical;
using namespace NetworkAnalyticalCongestionAware;

namespace {

std::shared_ptr<Topology> topology;
int num_ranks = 0, rounds = 0;
double chunk_bytes = 0;
struct Rank {
  int id = 0, received = 0;
};
std::vector<Rank> ranks;

void arrived(void* argument);

void send_to(int from, int to, void (*callback)(void*), void* argument) {
  topology->send(
      std::make_unique<Chunk>(static_cast<ChunkSize>(chunk_bytes), topology->route(from, to), callback, argument));
}

// What has come is sent on, until all rounds are over.
void arrived(void* argument) {
  Rank& rank = *static_cast<Rank*>(argument);
  if (++rank.received < rounds) {
    const int next = (rank.id + 1) % num_ranks;
    send_to(rank.id, next, arrived, &ranks[static_cast<std::size_t>(next)]);
  }
}
void ignored(void*) {}

}  // namespace

int main(int, char** argv) {
  const auto begin = std::chrono::steady_clock::now();
  const auto queue = std::make_shared<EventQueue>();
  Topology::set_event_queue(queue);
  topology = construct_topology(NetworkParser(argv[1]));
  num_ranks = topology->get_npus_count();
  const std::string what = argv[2];
  chunk_bytes = std::atof(argv[3]);
  if (what == "ring") {
    chunk_bytes /= num_ranks;
    rounds = 2 * (num_ranks - 1);
    for (int r = 0; r < num_ranks; ++r) ranks.push_back({r, 0});
    for (int r = 0; r < num_ranks; ++r)
      send_to(r, (r + 1) % num_ranks, arrived, &ranks[static_cast<std::size_t>((r + 1) % num_ranks)]);
  } else {
    for (int i = 1; i < num_ranks; ++i)
      for (int r = 0; r < num_ranks; ++r) send_to(r, (r + i) % num_ranks, ignored, nullptr);
  }
  while (!queue->finished()) queue->proceed();
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%llu %.6g\n", static_cast<unsigned long long>(queue->get_current_time()), wall);
  return 0;
}
