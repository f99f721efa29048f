// A scheduler that owns all timing: one rank runs at a time, and a seed decides who is next and when each store and
// each signal lands. Stores of a lane land before its signals to the same rank, and at once in the rank's own memory;
// what a rank sends to another in one run lands before what it sends there in the next. Nothing else is ordered, unless
// a fabric orders it, as paced links do (transport/local/pace.h): what one rank sends to another lands in the order of
// issue, and on fabric nic so do all bytes that leave a rank, whereas signals without bytes pass those to other ranks.
// A fabric also says now and then that a link has no room, but never where nothing is under way on it. The same seed
// gives the same schedule, so a failing seed replays.
#pragma once

#include <semaphore.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "weft/base/fabric.h"
#include "weft/exec/cpu/hooks.h"

namespace weft::testing {

class SeededScheduler : public Hooks {
 public:
  SeededScheduler(int num_ranks, std::uint64_t seed, std::optional<Fabric> fabric = {});
  ~SeededScheduler();
  SeededScheduler(const SeededScheduler&) = delete;
  SeededScheduler& operator=(const SeededScheduler&) = delete;

  // Every rank's thread calls these around what is to be scheduled; enter() returns when it is this rank's turn.
  void enter(int rank);
  void leave(int rank);
  // Another schedule for the same ranks, when all have left and none has entered again.
  void begin_again(std::uint64_t seed);

  void put(int rank, int target, std::int64_t rows, std::int64_t cols, const ConstStrip& from,
           const Strip& to) override;
  void signal(int rank, int target, std::uint32_t* counter) override;
  void end_lane(int rank) override;
  void begin_run(int rank) override;
  bool has_room(int rank, int target) override;
  void pause(int rank, bool blocked) override;  // throws internal when no rank can go on and nothing is left to land

  std::int64_t events() const { return events_; }
  std::int64_t refusals() const { return refusals_; }  // how often a link had no room

 private:
  struct Store {
    std::int64_t rows, cols;
    std::vector<std::byte> values;
    Dtype dtype;
    Strip to;
  };
  // What one lane sends to one rank: its stores, and then its signals.
  struct Parcel {
    int rank, target, run;
    bool open = true;    // the lane is still adding to it
    bool bytes = false;  // it had stores
    std::vector<Store> stores;
    std::vector<std::uint32_t*> signals;
  };

  Parcel& parcel(int rank, int target);
  std::vector<std::size_t> may_land();
  bool land_one();
  int choose();
  void give_turn(int rank);
  void wait_turn(int rank);

  // Only the rank whose turn it is touches what is below; a turn that is given brings all of it along.
  std::mutex entering_;
  std::vector<sem_t> turn_;  // one per rank; not std::binary_semaphore, whose wake-ups gcc 12 can lose
  std::mt19937_64 random_;
  std::optional<Fabric> fabric_;
  std::deque<Parcel> parcels_;
  std::vector<char> present_, blocked_;
  std::vector<int> runs_;    // begun by each rank
  std::vector<int> oldest_;  // what may_land() works with
  std::vector<char> sent_, bytes_sent_;
  int expected_, entered_ = 0;
  bool stuck_ = false;
  std::int64_t events_ = 0, refusals_ = 0;
};

}  // namespace weft::testing
