#include "tests/seeded_scheduler.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/kernel/sum.h"

namespace weft::testing {

SeededScheduler::SeededScheduler(int num_ranks, std::uint64_t seed)
    : turn_(num_ranks),
      random_(seed),
      present_(num_ranks, 0),
      blocked_(num_ranks, 0),
      runs_(num_ranks, 0),
      expected_(num_ranks) {}

void SeededScheduler::enter(int rank) {
  std::unique_lock lock(mutex_);
  present_[rank] = 1;
  blocked_[rank] = 0;
  // Nobody moves before all are here, or the order would depend on how threads start.
  if (++entered_ == expected_) choose();
  wait_turn(lock, rank);
}

void SeededScheduler::leave(int rank) {
  const std::lock_guard lock(mutex_);
  present_[rank] = 0;
  choose();
}

SeededScheduler::Parcel& SeededScheduler::parcel(int rank, int target) {
  for (Parcel& p : parcels_)
    if (p.open && p.rank == rank && p.target == target) return p;
  parcels_.push_back({rank, target, runs_[rank], true, {}, {}});
  return parcels_.back();
}

void SeededScheduler::put(int rank, int target, std::int64_t rows, std::int64_t cols, const ConstStrip& from,
                          const Strip& to) {
  if (target == rank) return copy(rows, cols, from, to);  // its own memory: done when the lane is done (the drain rule)
  Store store{rows, cols, std::vector<std::byte>(static_cast<std::size_t>(rows * cols) * size_of(from.dtype)),
              from.dtype, to};
  copy(rows, cols, from, {store.values.data(), cols, from.dtype});
  parcel(rank, target).stores.push_back(std::move(store));
}

void SeededScheduler::signal(int rank, int target, std::uint32_t* counter) {
  parcel(rank, target).signals.push_back(counter);
}

void SeededScheduler::end_lane(int rank) {
  for (Parcel& p : parcels_)
    if (p.rank == rank) p.open = false;
}

void SeededScheduler::begin_run(int rank) { ++runs_[rank]; }

bool SeededScheduler::may_land(const Parcel& parcel) const {
  return !parcel.open && std::none_of(parcels_.begin(), parcels_.end(), [&](const Parcel& other) {
    return other.rank == parcel.rank && other.target == parcel.target && other.run < parcel.run;
  });
}

// Lands one store or signal of a parcel chosen by the seed.
bool SeededScheduler::land_one() {
  std::vector<std::size_t> closed;
  for (std::size_t i = 0; i < parcels_.size(); ++i)
    if (may_land(parcels_[i])) closed.push_back(i);
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
  if (p.stores.empty() && p.signals.empty()) parcels_.erase(parcels_.begin() + static_cast<std::ptrdiff_t>(at));
  return true;
}

// Lets things land, or not, and hands the turn to one of the ranks that could go on.
void SeededScheduler::choose() {
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
      running_ = -1;
      break;
    }
    if (able.empty() || random_() % 3 == 0) {
      if (land_one()) continue;
      if (able.empty()) {
        stuck_ = true;
        for (std::condition_variable& turn : turn_) turn.notify_one();
        return;
      }
    }
    running_ = able[random_() % able.size()];
    break;
  }
  if (running_ >= 0) turn_[running_].notify_one();
}

void SeededScheduler::wait_turn(std::unique_lock<std::mutex>& lock, int rank) {
  turn_[rank].wait(lock, [&] { return running_ == rank || stuck_; });
  if (stuck_) fail(Code::internal, "all ranks wait and nothing is under way");
}

void SeededScheduler::pause(int rank, bool blocked) {
  std::unique_lock lock(mutex_);
  blocked_[rank] = blocked;
  choose();
  wait_turn(lock, rank);
}

}  // namespace weft::testing
