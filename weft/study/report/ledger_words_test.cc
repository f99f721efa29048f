#include "weft/study/report/ledger_words.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(LedgerWords, SizesAreThoseOfTheKindOfModel) {
  const Workload t_nlg = load_workload("t-nlg");
  EXPECT_EQ(size_words(scaled(t_nlg, t_nlg.scale_down)), "256 tokens, hidden 2128, ffn 8512");
  EXPECT_NE(size_words(load_workload("mixtral-8x7b")).find(", 2 of 8 experts"), std::string::npos);
  EXPECT_NE(size_words(load_workload("dlrm-v2")).find(" samples, 26 tables of at most "), std::string::npos);
}

TEST(LedgerWords, ALinkIsItsRateLatencyAndFabric) {
  EXPECT_EQ(link_words({parse_link("250mbit,10us"), "250mbit,10us"}), "links of 250 Mbit/s, 10.0 us");
  EXPECT_EQ(link_words({parse_link("2.5gbit,nic"), "2.5gbit,nic"}), "a NIC per rank of 2.5 Gbit/s");
  EXPECT_EQ(link_words({{}, "shm"}), "shared memory");
}

}  // namespace
}  // namespace weft
