// What is read of meshes and shapes that somebody asks for, and the picture of what is moved.
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/study/reshard/nic_gantt.h"
#include "weft/study/reshard/request_words.h"

namespace weft {
namespace {

TEST(ReshardWords, AreReadAsTheyAreWritten) {
  EXPECT_EQ(parse_shape("1024,3,7"), (Shape{1024, 3, 7}));
  EXPECT_EQ(parse_ranks("0,2,4-7"), (std::vector<int>{0, 2, 4, 5, 6, 7}));
  EXPECT_DOUBLE_EQ(parse_scale("1/64"), 1.0 / 64);
  EXPECT_DOUBLE_EQ(parse_scale(""), 1);
  const Mesh named = parse_mesh("dp=2,tp=4@4", "--src");
  EXPECT_EQ(named.size(), 8);
  EXPECT_EQ(parse_mesh("2x4", "--src").size(), 8);
  EXPECT_EQ(parse_mesh("8", "--dst").size(), 8);
}

TEST(ReshardWords, RefusalsNameFlagValueAndRemedy) {
  const auto says = [](const std::function<void()>& call, std::initializer_list<const char*> parts) {
    const std::string text = refusal(call);
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  };
  says([] { parse_shape("1024,,7"); }, {"--shape", "no whole number"});
  says([] { parse_shape("0,7"); }, {"--shape 0,7", "1 or more"});
  says([] { parse_shape("1125899906842624,2"); }, {"2^50"});
  says([] { parse_shape("1,1,1,1,1,1,1,1,1"); }, {"9 dimensions"});
  says([] { parse_mesh("2x4@3", "--src"); }, {"--src 2x4@3", "divides 8"});
  says([] { parse_mesh("2xx", "--dst"); }, {"--dst 2xx", "write it as 2x4"});
  for (const char* bad : {"7-4", "-1", "4-", "a"}) says([&] { parse_ranks(bad); }, {"--dst-ranks"});
  for (const char* bad : {"0", "2", "1/0", "x", "-1/2"}) says([&] { parse_scale(bad); }, {"--scale", "1/64"});
  says([] { parse_spec("S5,R", Mesh({{"host", 2}, {"device", 2}}), "--src-spec"); }, {"--src-spec S5,R"});
}

// Two hosts of two devices send rows to two others, which want columns.
ReshardSpec moved() {
  ReshardRequest flags;
  flags.shape = "64,64", flags.src = "2x2", flags.dst = "2x2", flags.src_spec = "S01,R", flags.dst_spec = "R,S01";
  return parse_reshard(flags);
}

TEST(ReshardGantt, EveryNicThatCarriesAnythingHasARow) {
  const ReshardSpec spec = moved();
  const auto all = tasks(spec.reshard);
  const Schedule found = weft::schedule(all, spec.network);
  const auto rows = nic_rows(spec, all, found);
  ASSERT_EQ(rows.size(), 4u) << "two hosts send, two receive";
  EXPECT_EQ(rows[0].group + " " + rows[0].name, "host 0 send");
  EXPECT_EQ(rows[3].group + " " + rows[3].name, "host 3 receive");
  double sent = 0, received = 0;
  for (const auto& row : rows)
    for (const auto& bar : row.bars)
      (row.name == "send" ? sent : received) += bar.share * (bar.end_s - bar.begin_s) * spec.nic_bytes_per_s();
  EXPECT_NEAR(sent, 64 * 64 * 4, 1) << "every byte once";
  EXPECT_NEAR(received, 64 * 64 * 4, 1);
}

TEST(ReshardGantt, TooManyRowsAreLeftOutAndCounted) {
  const ReshardSpec spec = moved();
  const auto all = tasks(spec.reshard);
  const Schedule found = weft::schedule(all, spec.network);
  const std::string whole = gantt_text(spec, all, found, {.width = 60});
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 6) << "a scale, four rows and what letters mean\n" << whole;
  const std::string cut = gantt_text(spec, all, found, {.width = 60, .rows = 2});
  EXPECT_NE(cut.find("2 of 4 rows are left out"), std::string::npos) << cut;
  const std::size_t words = whole.find("one letter per task");
  for (std::size_t begin = 0, end = 0; (end = whole.find('\n', begin)) < words; begin = end + 1)
    EXPECT_LE(end - begin, 60u) << whole.substr(begin, end - begin);
  EXPECT_EQ(gantt_svg(spec, all, found).rfind("<svg", 0), 0u);
  EXPECT_EQ(glyph_of(0), glyph_of(62)) << "they repeat";
  EXPECT_NE(glyph_of(0), glyph_of(61));
}

}  // namespace
}  // namespace weft
