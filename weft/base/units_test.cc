#include "weft/base/units.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(Units, ReadsBytes) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("4 KB"), 4000);
  EXPECT_EQ(parse_bytes(" 1.5GB "), 1500000000);
  EXPECT_EQ(parse_bytes("16MiB"), 16 << 20);
}

TEST(Units, ReadsRates) {
  EXPECT_DOUBLE_EQ(parse_rate("10gbit"), 1.25e9);
  EXPECT_DOUBLE_EQ(parse_rate("10 Gbit/s"), 1.25e9);
  EXPECT_DOUBLE_EQ(parse_rate("8bit"), 1);
  EXPECT_DOUBLE_EQ(parse_rate("11 GB/s"), 11e9);
  EXPECT_DOUBLE_EQ(parse_rate("1MiB/s"), 1048576);
}

TEST(Units, ReadsDurations) {
  EXPECT_DOUBLE_EQ(parse_duration("12.3 us"), 12.3e-6);
  EXPECT_DOUBLE_EQ(parse_duration("0ns"), 0);
  EXPECT_DOUBLE_EQ(parse_duration("5\u00b5s"), 5e-6);
  EXPECT_DOUBLE_EQ(parse_duration("2s"), 2);
}

TEST(Units, RefusesWhatItCannotReadAndNamesTheRemedy) {
  for (const char* text : {"", "x", "KB", "-4 KB", "4 Kb", "4 XB", "nan", "inf KB", "1e30", "4 KB extra"})
    EXPECT_THROW(parse_bytes(text), Error) << text;
  for (const char* text : {"", "10", "10GB", "10 Mb/s", "0gbit", "-1gbit", "nan gbit", "inf gbit", "10gbit,10us", "/s"})
    EXPECT_THROW(parse_rate(text), Error) << text;
  for (const char* text : {"", "10", "10 m", "-1us", "us", "nan s", "1e999 s"})
    EXPECT_THROW(parse_duration(text), Error) << text;
  try {
    parse_duration("10 sec");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "unknown unit \"sec\" in \"10 sec\"; write a number and a unit, as 800ns, 10us or 1.5 ms");
  }
}

TEST(Units, WritesThreeToFourDigits) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(4000), "4.00 KB");
  EXPECT_EQ(format_bytes(999999), "1.00 MB");
  EXPECT_EQ(format_rate(1.25e9), "1.25 GB/s");
  EXPECT_EQ(format_bit_rate(312.5e6), "2.5 Gbit/s");
  EXPECT_EQ(format_bit_rate(31.25e6), "250 Mbit/s");
  EXPECT_EQ(format_duration(12.3e-6), "12.3 us");
  EXPECT_EQ(format_duration(0.9999e-6), "1.00 us");
  EXPECT_EQ(format_duration(123.4), "123 s");
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(-2e-3), "-2.00 ms");
}

TEST(Units, WhatIsWrittenReadsBackToTheDigitsShown) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const double value = std::pow(10.0, std::uniform_real_distribution<>(0.5, 14)(random));
    EXPECT_NEAR(parse_bytes(format_bytes(value)) / value, 1, 0.2);
    EXPECT_NEAR(parse_rate(format_rate(value)) / value, 1, 0.006);
    EXPECT_NEAR(parse_duration(format_duration(value * 1e-9)) / (value * 1e-9), 1, 0.006);
  }
}

}  // namespace
}  // namespace weft
