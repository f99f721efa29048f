// One play of a scene under one timing: what is under way, and when each thing happens.
#pragma once

#include <array>
#include <queue>
#include <string>
#include <vector>

#include "tests/mutants/scene.h"

namespace weft::mutants {

using Time = std::uint64_t;

enum class What : std::uint8_t { start, read, store, signal, look, open };

struct Event {
  Time time;
  std::uint32_t order;  // ties: first come, first served
  What what;
  std::int32_t rank, run, lane, item;
  bool operator>(const Event& o) const { return time != o.time ? time > o.time : order > o.order; }
};

// One lane of one run under way. It outlives the run of its rank until its last store has landed.
struct Flight {
  std::vector<std::vector<Term>> read;  // reads, then sources
  std::vector<Term> value;
  int reads_left = 0;
  int home_left = 0;  // stores and signals to its own rank that have not landed
  std::vector<bool> landed;
};

struct Rank {
  int run = -1;
  std::vector<std::vector<std::vector<Term>>> memory;  // [buffer][copy]
  std::vector<std::int64_t> counters;
  std::vector<int> blocked;  // claimed, waits not met
  std::vector<int> steps;
  std::size_t next_step = 0;
  int busy = 0;                              // threads that hold a step
  int left = 0;                              // lanes of this run that have not been issued
  std::vector<std::vector<Flight>> flights;  // [run][lane]
  std::vector<std::vector<int>> under_way;   // [run][to]: stores and signals sent and not landed
};

// How slow things are, drawn once a seed, over several orders of magnitude: ranks drift whole runs apart.
struct Pace {
  std::vector<int> rank, link;
  std::array<int, 6> kind{};
  int threads = 1;
  int victim_rank = 0, victim_lane = 0;  // one lane that is late in all it does
  What victim_what = What::read;
};

class Play {
 public:
  Play(const Adversary::Scene& scene, std::uint64_t seed);
  std::string run();

 private:
  std::uint64_t draw() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  std::uint64_t draw(std::uint64_t below) { return draw() % below; }
  void post(What what, int rank, int run, int lane, int item, int to);
  void handle(const Event& e);
  void open(int rank);
  void claim(int rank);
  void offer(int rank, int lane);
  bool met(int rank, int lane) const;
  void start(const Event& e);
  void read(const Event& e);
  void compute(int rank, int run, int lane);
  void store(const Event& e);
  void signal(const Event& e);
  void post_signals(int rank, int run, int lane, int to);
  bool overtakes(const Event& e, int to) const;
  void landed(const Event& e, int to);
  void issued(int rank, int run, int lane);
  void look(int rank, const char* when);

  Flight& flight(int rank, int run, int lane) { return ranks_[rank].flights[run][lane]; }
  std::vector<Term>& copy_of(const Place& p, int run) {
    auto& copies = ranks_[p.rank].memory[p.buffer];
    return copies[run % copies.size()];
  }

  const Adversary::Scene& scene_;
  std::uint64_t state_;
  Pace pace_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Time now_ = 0;
  std::uint32_t order_ = 0;
  std::string wrong_;
};

}  // namespace weft::mutants
