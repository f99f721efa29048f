// Values that say where they belong: neighbours and rounds differ, and what is wrong is named.
#include "weft/study/reshard/values.h"

#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ReshardValues, EveryElementDiffersFromItsNeighboursAndFromLastRound) {
  Transfer transfer{{{{"x", {6, 50}, Dtype::f32}, {0, 0}}}, {"x", {6, 50}, Dtype::bf16}};
  const Box box{{1, 4}, {10, 50}};
  std::vector<std::uint16_t> a(3 * 40), b(3 * 40);
  fill_values(values_of(transfer, 0, 1), box, Dtype::bf16, a.data());
  fill_values(values_of(transfer, 0, 2), box, Dtype::bf16, b.data());
  int same = 0;
  for (std::size_t i = 0; i < a.size(); ++i) same += (i > 0 && a[i] == a[i - 1]) + (a[i] == b[i]);
  EXPECT_LE(same, 2);
  std::int64_t wrong = 0;
  EXPECT_FALSE(check_values(values_of(transfer, 0, 1), box, Dtype::bf16, a.data(), &wrong));
  std::swap(a[45], a[46]);  // row 1 of the box, columns 5 and 6
  const auto bad = check_values(values_of(transfer, 0, 1), box, Dtype::bf16, a.data(), &wrong);
  ASSERT_TRUE(bad);
  EXPECT_EQ(wrong, 2);
  EXPECT_EQ(bad->element, (std::vector<std::int64_t>{2, 15}));
  // f32 on the way to bf16 holds only what bf16 can.
  std::vector<float> wide(3 * 40);
  fill_values(values_of(transfer, 0, 1), box, Dtype::f32, wide.data());
  for (const float value : wide) EXPECT_EQ(to_float(to_bf16(value)), value);
}

TEST(ReshardValues, EveryDtypeIsFilledAndChecked) {
  const Box box{{0, 3}, {2, 9}};
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::i32, Dtype::i64, Dtype::u8}) {
    const Transfer transfer{{{{"x", {3, 9}, dtype}, {0, 0}}}, {"x", {3, 9}, dtype}};
    const PlacedValues values = values_of(transfer, 1, 4);
    std::vector<std::byte> memory(21 * size_of(dtype));
    fill_values(values, box, dtype, memory.data());
    std::int64_t wrong = 0;
    EXPECT_FALSE(check_values(values, box, dtype, memory.data(), &wrong));
    memory[10 * size_of(dtype)] ^= std::byte{1};
    const auto bad = check_values(values, box, dtype, memory.data(), &wrong);
    ASSERT_TRUE(bad) << to_string(dtype);
    EXPECT_EQ(wrong, 1);
    EXPECT_EQ(bad->element, (std::vector<std::int64_t>{1, 5}));
    EXPECT_NE(bad->expected, bad->found);
  }
}

}  // namespace
}  // namespace weft
