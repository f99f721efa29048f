// Which rows of a value count in a run that gives counts. A run may leave rows out (plan.h, Limit): what is made from a
// row that was left out is not there either. So every part of a value knows what has to hold for a row of it: the row's
// number, moved by a shift, is below the count of rows, and below the count of one peer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "weft/plan/verify/model.h"

namespace weft::verifying {

struct Limits {
  static constexpr std::int64_t kAll = INT64_MIN;  // rows count whatever the count is
  static constexpr std::int32_t kNobody = -1, kSeveral = -2;

  std::int64_t rows = kAll;     // row + rows < the count of rows
  std::int32_t peer = kNobody;  // row + shift < the count of this peer
  std::int32_t by = 0;          // as it was given to this rank, the first to leave rows out
  std::int64_t shift = 0;

  friend bool operator==(const Limits&, const Limits&) = default;
};

// Limits by number, so that equal ones nearly always have equal numbers.
class LimitTable {
 public:
  static constexpr std::int32_t kNone = 0, kRows = 1;  // kRows: a row counts where its own number is below the count

  LimitTable() : all_{{}, {.rows = 0}} { latest_.fill(kNone); }

  const Limits& operator[](std::int32_t id) const { return all_[at(id)]; }
  std::int64_t bytes() const { return std::ssize(all_) * std::int64_t{2 * (sizeof(Limits) + sizeof(Move))}; }
  std::int32_t intern(const Limits& limits);
  std::int32_t both(std::int32_t a, std::int32_t b) { return a == b || b == kNone ? a : both(a, all_[at(b)]); }
  std::int32_t both(std::int32_t a, const Limits& more);  // where each names a peer, a's rank is the first
  std::int32_t moved(std::int32_t id, std::int64_t by);   // rows are now called by numbers that much higher
  // What an act adds, of a row of its box, by its logical number.
  static Limits of(const Act& act, std::int64_t row, std::int64_t logical);

 private:
  struct Move {
    std::int64_t by = 0;
    std::int32_t to = 0;
  };
  std::vector<Limits> all_;
  std::vector<Move> moves_;  // of each: where it went last, nearly always where it goes
  // By a hash, the latest with it. An exchange has a limit for each pair of ranks, met once: a map of all of them took
  // a seventh of its proof. One that is met again soon is still here; one that is not gets another number.
  std::array<std::int32_t, 1024> latest_;
};

}  // namespace weft::verifying
