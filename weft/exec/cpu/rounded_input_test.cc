#include "weft/exec/cpu/rounded_input.h"

#include <atomic>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::int64_t kRows = 12, kWidth = 100;
constexpr RoundedForm kForm{Dtype::q8_0, 0, kWidth};

std::vector<float> rows_of(std::uint64_t run) {
  std::vector<float> x(num(kRows * kWidth));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * (run + 3)) % 101) - 50;
  return x;
}

bool same(const RoundedRows& a, const RoundedRows& b, std::int64_t rows) {
  return a.parts == b.parts && std::memcmp(a.bytes, b.bytes, num(rows * a.parts * 32)) == 0 &&
         std::memcmp(a.scales, b.scales, num(rows * a.parts * 4)) == 0;
}

TEST(RoundedInput, EveryRunRoundsAgainAndThreadsSeeWholeRows) {
  RoundedInput rounded({{0, 8, 2}, {8, 12, 2}}, kWidth, 1 << 20);
  std::atomic<int> wrong = 0, served = 0;
  for (std::uint64_t run = 0; run < 200; ++run) {
    const std::vector<float> x = rows_of(run);
    rounded.begin(run);
    const auto look = [&] {
      std::vector<std::byte> memory(most_rounded_bytes(kRows, kWidth));
      for (const auto& [lo, hi] : {std::pair<std::int64_t, std::int64_t>{0, 8}, {8, 11}}) {  // the last does not count
        const auto seen = rounded.get(lo, hi, kForm, x.data() + lo * kWidth);
        if (!seen) continue;  // the other thread is about it
        ++served;
        const RoundedRows expected = rounded_in(memory.data(), hi - lo, kForm);
        round_rows(kForm, 0, hi - lo, x.data() + lo * kWidth, kWidth, expected);
        wrong += same(*seen, expected, hi - lo) ? 0 : 1;
      }
    };
    std::thread other(look);
    look();
    other.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(served, 200 * 2);  // each strip by at least the thread that rounded it
}

TEST(RoundedInput, LeavesOutWhatIsNeededOnceOverlapsOrIsTooMuch) {
  const std::vector<float> x = rows_of(0);
  RoundedInput rounded({{0, 4, 2}, {2, 6, 2}, {6, 8, 1}}, kWidth, 1 << 20);
  EXPECT_TRUE(rounded.get(0, 4, kForm, x.data()));
  EXPECT_TRUE(rounded.get(0, 4, kForm, x.data()));
  EXPECT_FALSE(rounded.get(0, 3, kForm, x.data())) << "made for four rows";
  EXPECT_FALSE(rounded.get(0, 5, kForm, x.data())) << "longer than the span";
  EXPECT_FALSE(rounded.get(2, 6, kForm, x.data()));
  EXPECT_FALSE(rounded.get(6, 8, kForm, x.data()));
  RoundedInput small({{0, 4, 2}, {4, 8, 2}}, kWidth, static_cast<std::int64_t>(most_rounded_bytes(4, kWidth)));
  EXPECT_TRUE(small.get(0, 4, kForm, x.data()));
  EXPECT_FALSE(small.get(4, 8, kForm, x.data()));
}

}  // namespace
}  // namespace weft
