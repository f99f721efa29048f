#include "tests/seeded_scheduler.h"

#include <algorithm>

#include <climits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/rows/sum.h"

namespace weft::testing {

SeededScheduler::SeededScheduler(int num_ranks, std::uint64_t seed, std::optional<Fabric> fabric)
    : turn_(num_ranks),
      random_(seed),
      fabric_(fabric),
      present_(num_ranks, 0),
      blocked_(num_ranks, 0),
      runs_(num_ranks, 0),
      expected_(num_ranks) {
  for (sem_t& turn : turn_) sem_init(&turn, 0, 0);
}

SeededScheduler::~SeededScheduler() {
  for (sem_t& turn : turn_) sem_destroy(&turn);
}

void SeededScheduler::enter(int rank) {
  {
    const std::lock_guard lock(entering_);
    present_[rank] = 1;
    // Nobody moves before all are here, or the order would depend on how threads start.
    if (++entered_ == expected_) give_turn(choose());
  }
  wait_turn(rank);
}

void SeededScheduler::leave(int rank) {
  present_[rank] = 0;
  give_turn(choose());
}

void SeededScheduler::begin_again(std::uint64_t seed) {
  random_.seed(seed);
  blocked_.assign(blocked_.size(), 0);
  entered_ = 0;
}

SeededScheduler::Parcel& SeededScheduler::parcel(int rank, int target) {
  for (Parcel& p : parcels_)
    if (p.open && p.rank == rank && p.target == target) return p;
  parcels_.push_back({rank, target, runs_[rank], true, false, {}, {}});
  return parcels_.back();
}

void SeededScheduler::put(int rank, int target, std::int64_t rows, std::int64_t cols, const ConstStrip& from,
                          const Strip& to) {
  if (target == rank) return copy(rows, cols, from, to);  // its own memory: done when the lane is done (the drain rule)
  Store store{rows, cols, std::vector<std::byte>(num(rows * row_bytes(from.dtype, cols))), from.dtype, to};
  copy(rows, cols, from, {store.values.data(), cols, from.dtype});
  Parcel& sent = parcel(rank, target);
  sent.bytes = true;
  sent.stores.push_back(std::move(store));
}

void SeededScheduler::signal(int rank, int target, std::uint32_t* counter) {
  parcel(rank, target).signals.push_back(counter);
}

void SeededScheduler::end_lane(int rank) {
  for (Parcel& p : parcels_)
    if (p.rank == rank) p.open = false;
}

void SeededScheduler::begin_run(int rank) { ++runs_[rank]; }

// A trigger is held back at random, but only while something is under way on its link: what lands makes room.
bool SeededScheduler::has_room(int rank, int target) {
  const auto shares_link = [&](const Parcel& p) {
    return p.rank == rank && (fabric_ == Fabric::nic || p.target == target) && p.target != rank;
  };
  const bool busy = std::any_of(parcels_.begin(), parcels_.end(), shares_link);
  if (!fabric_ || !busy || random_() % 2 == 0) return true;
  ++refusals_;
  return false;
}

// Which parcels are closed, behind no other, and of the oldest run that their sender has under way to their target.
std::vector<std::size_t> SeededScheduler::may_land() {
  const auto pair = [&](const Parcel& p) { return num(p.rank * expected_ + p.target); };
  oldest_.assign(num(expected_ * expected_), INT_MAX);
  for (const Parcel& p : parcels_) oldest_[pair(p)] = std::min(oldest_[pair(p)], p.run);
  sent_.assign(oldest_.size(), 0);      // from rank to target, before the parcel looked at
  bytes_sent_.assign(turn_.size(), 0);  // from rank
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < parcels_.size(); ++i) {
    const Parcel& p = parcels_[i];
    const bool behind = fabric_ && (sent_[pair(p)] || (fabric_ == Fabric::nic && p.bytes && bytes_sent_[num(p.rank)]));
    if (!p.open && p.run == oldest_[pair(p)] && !behind) out.push_back(i);
    sent_[pair(p)] = 1;
    if (p.bytes) bytes_sent_[num(p.rank)] = 1;
  }
  return out;
}

// Lands one store or signal of a parcel chosen by the seed.
bool SeededScheduler::land_one() {
  const std::vector<std::size_t> closed = may_land();
  if (closed.empty()) return false;
  const std::size_t at = closed[random_() % closed.size()];
  Parcel& p = parcels_[at];
  ++events_;
  if (!p.stores.empty()) {
    const std::size_t which = random_() % p.stores.size();
    const Store& s = p.stores[which];
    copy(s.rows, s.cols, {s.values.data(), s.cols, s.dtype}, s.to);
    p.stores.erase(p.stores.begin() + static_cast<std::ptrdiff_t>(which));
  } else if (!p.signals.empty()) {
    const std::size_t which = random_() % p.signals.size();
    ++*p.signals[which];
    p.signals.erase(p.signals.begin() + static_cast<std::ptrdiff_t>(which));
    blocked_.assign(blocked_.size(), 0);  // somebody may have been waiting for it
  }
  if (p.stores.empty() && p.signals.empty()) {
    parcels_.erase(parcels_.begin() + static_cast<std::ptrdiff_t>(at));
    if (fabric_) blocked_.assign(blocked_.size(), 0);  // a link may have room now
  }
  return true;
}

// Lets things land, or not, and returns one of the ranks that could go on; -1: none is left, or none ever will.
int SeededScheduler::choose() {
  for (;;) {
    std::vector<int> able;
    bool anyone = false;
    for (std::size_t r = 0; r < present_.size(); ++r) {
      anyone = anyone || present_[r];
      if (present_[r] && !blocked_[r]) able.push_back(static_cast<int>(r));
    }
    if (!anyone) {
      while (land_one()) {
      }
      return -1;
    }
    if (able.empty() || random_() % 3 == 0) {
      if (land_one()) continue;
      if (able.empty()) {
        stuck_ = true;
        return -1;
      }
    }
    return able[random_() % able.size()];
  }
}

void SeededScheduler::give_turn(int rank) {
  if (rank >= 0) sem_post(&turn_[rank]);
  if (stuck_)
    for (sem_t& turn : turn_) sem_post(&turn);  // all are to know
}

void SeededScheduler::wait_turn(int rank) {
  while (sem_wait(&turn_[rank]) != 0) {  // interrupted
  }
  if (stuck_) fail(Code::internal, "all ranks wait and nothing is under way");
}

void SeededScheduler::pause(int rank, bool blocked) {
  blocked_[rank] = blocked;
  const int next = choose();
  if (next == rank) return;
  give_turn(next);
  wait_turn(rank);
}

}  // namespace weft::testing
