#include "weft/study/clock.h"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/transport/local/wait.h"

namespace weft {
namespace {

// A float holds 24 bits exactly: a number travels as three of 22.
constexpr int kParts = 3;
constexpr int kBits = 22;
constexpr std::int64_t kMask = (std::int64_t{1} << kBits) - 1;

// From the last rank's arrival to the start: time enough for the news to reach everyone.
constexpr std::int64_t kNoticeNs = 100'000;

constexpr int kClockRounds = 20;
constexpr std::int64_t kNotNegative = std::int64_t{1} << 61;  // what ranks tell each other is not negative

Op make_gather(World& world) {
  return world.compile(copy({.rows = 1, .cols = CommonClock::kValues * kParts}),
                       all_gather(world.mesh({{"all", world.size()}}), "all"));
}

}  // namespace

CommonClock::CommonClock(World& world)
    : world_(world),
      crowded_(static_cast<unsigned>(world.size()) > std::thread::hardware_concurrency()),
      gather_(make_gather(world)),
      mine_(kValues * kParts),
      all_(num(world.size()) * kValues) {
  if (world.has_wire() && !one_machine()) compare_clocks();
}

// Clocks start with the machine: one start, one clock.
bool CommonClock::one_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  const auto id = static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 2);
  const auto all = tell({&id, 1});
  for (std::size_t rank = 0; rank < all.size(); rank += kValues)
    if (all[rank] != id) return false;
  return true;
}

void CommonClock::compare_clocks() {
  std::vector<std::int64_t> late(num(world_.size()), INT64_MAX);  // what came, against its clock
  for (int round = 0; round < kClockRounds; ++round) {
    const std::int64_t sent = now_ns();
    const auto all = tell({&sent, 1});
    const std::int64_t seen = now_ns();
    for (std::size_t rank = 0; rank < late.size(); ++rank)
      late[rank] = std::min(late[rank], seen - all[rank * kValues]);
  }
  std::int64_t back = 0;  // what rank 0 saw of this rank
  for (std::size_t first = 0; first < late.size(); first += kValues) {
    std::int64_t values[kValues]{};
    for (std::size_t i = 0; i < kValues && first + i < late.size(); ++i) values[i] = late[first + i] + kNotNegative;
    const auto all = tell(values);
    const auto rank = num(world_.rank());
    if (rank >= first && rank < first + kValues) back = all[rank - first] - kNotNegative;
  }
  ahead_ns_ = (late[0] - back) / 2;
}

std::int64_t CommonClock::now_ns() { return weft::now_ns(); }

std::int64_t CommonClock::cpu_ns() const {
  timespec now{};
  clock_gettime(world_.transport() == "threads" ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::span<const std::int64_t> CommonClock::tell(std::span<const std::int64_t> values) {
  for (int v = 0; v < kValues; ++v)
    for (int part = 0; part < kParts; ++part)
      mine_[v * kParts + part] =
          num(v) < values.size() ? static_cast<float>((values[v] >> (part * kBits)) & kMask) : 0.0f;
  gather_.run(mine_.data());
  const Matrix y = gather_.output();
  for (std::size_t v = 0; v < all_.size(); ++v) {
    all_[v] = 0;
    for (int part = kParts - 1; part >= 0; --part)
      all_[v] = (all_[v] << kBits) | static_cast<std::int64_t>(y.data[v * kParts + num(part)]);
  }
  return all_;
}

std::int64_t CommonClock::sum_of_ranks(std::int64_t mine) {
  std::int64_t sum = 0;
  const auto all = tell({&mine, 1});
  for (std::size_t rank = 0; rank < all.size(); rank += kValues) sum += all[rank];
  return sum;
}

std::int64_t CommonClock::worst_of_ranks(std::int64_t mine) {
  std::int64_t worst = 0;
  const auto all = tell({&mine, 1});
  for (std::size_t rank = 0; rank < all.size(); rank += kValues) worst = std::max(worst, all[rank]);
  return worst;
}

std::int64_t CommonClock::start_together() {
  std::int64_t start = worst_of_ranks(now_ns() - ahead_ns_);
  start += kNoticeNs * (crowded_ ? 4 : 1) + ahead_ns_;
  if (crowded_) {  // spinning would take the core from a rank that has not got here
    const timespec until{start / 1'000'000'000, start % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
  while (now_ns() < start) cpu_pause();
  return start;
}

}  // namespace weft
