// What reading and proving one plan may cost. Every turn of a loop and every byte that is kept are charged here, before
// they are taken, so that no plan file, however small its text, takes the hour or the memory of whoever loads it.
//
//   work   one unit is about a nanosecond: an instruction of an expression, a comparison of two records. Counted and
//          not timed, so that a verdict is the same on every machine and under every load
//   bytes  of records that are kept (hold) and of those that one rank's part needs for a while (scratch: the most)
#pragma once

#include <algorithm>
#include <cstdint>

namespace weft {

class Budget {
 public:
  // Plans of 1024 ranks that Weft builds need 0.57 to 0.92 of it, gemm-ar by ring the most (docs/results/proof.md).
  static constexpr std::int64_t kWork = 5'000'000'000, kBytes = std::int64_t{960} << 20;
  static constexpr double kMostTimes = 1e6;
  static constexpr std::int64_t kFarMore = 64;

  // `times` as much as that. Throws bad_input unless it is positive and at most kMostTimes.
  explicit Budget(double times = 1);

  void spend(std::int64_t work) {
    if ((work_ += std::min(work, most_work_ + 1)) > most_work_) out_of_work();
  }
  // `times` turns of `each`, where the product may leave 64 bits.
  void spend(std::int64_t times, std::int64_t each) {
    std::int64_t work = 0;
    if (times > 0) spend(__builtin_mul_overflow(times, each, &work) ? INT64_MAX : work);
  }
  void hold(std::int64_t bytes) {
    check(bytes);
    bytes_ += bytes;
    most_held_ = std::max(most_held_, bytes_);
  }
  // Could so much be held? For memory that is about to be taken and will be weighed then.
  void check(std::int64_t bytes) const {
    if (bytes > most_bytes_ - scratch_ - bytes_) out_of_bytes();
  }
  void release(std::int64_t bytes) { bytes_ -= bytes; }
  // The first of `ranks` has taken so much work. Ranks are much alike: where it is far more than the others could take
  // on average, the rest need not be tried.
  void expect(std::int64_t work, std::int64_t ranks) const {
    if (work / kFarMore > most_work_ / ranks) out_of_work();
  }
  void scratch(std::int64_t bytes) {
    if (bytes <= scratch_) return;
    check(bytes - scratch_);
    scratch_ = bytes;
  }

  std::int64_t work() const { return work_; }  // spent so far
  std::int64_t held() const { return bytes_; }
  double used() const;  // of the usual budget: work or bytes, whichever is more; bytes at their highest

 private:
  [[noreturn]] void out_of_work() const;
  [[noreturn]] void out_of_bytes() const;

  std::int64_t most_work_, most_bytes_;
  std::int64_t work_ = 0, bytes_ = 0, most_held_ = 0, scratch_ = 0;
};

}  // namespace weft
