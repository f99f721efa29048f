// What a producer and a reshard must have in common, one difference at a time.
#include "weft/reshard/build/stream.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft::resharding {
namespace {

// A tensor of 8 x 12 whose rows two ranks share, for two others.
Reshard rows_to_columns() {
  return one_tensor({8, 12}, Dtype::f32, hosts_by_devices(2, 1), "S0,R", hosts_by_devices(2, 1), "R,S0");
}

Producer product(std::int64_t m, std::int64_t n) { return gemm({.m = m, .n = n, .k = 5}); }

void expect_refused(const Producer& producer, const Reshard& reshard, const char* words) {
  const std::string said = refusal([&] { check_stream(producer, reshard); });
  EXPECT_NE(said.find(words), std::string::npos) << said;
}

TEST(ReshardStream, AProducerOfShardsIsTaken) {
  check_stream(product(4, 12), rows_to_columns());
  const Reshard columns =
      one_tensor({8, 12}, Dtype::f32, hosts_by_devices(2, 1), "R,S0", hosts_by_devices(2, 1), "S0,R");
  check_stream(product(8, 6), columns);
}

TEST(ReshardStream, OtherSizesAreNamed) {
  expect_refused(product(8, 12), rows_to_columns(), "rank 0 holds 4 x 12 of");
  expect_refused(product(4, 11), rows_to_columns(), "the producer makes 4 x 11 there");
}

TEST(ReshardStream, OnlyMatricesOfF32AreMade) {
  Reshard half = rows_to_columns();
  half.transfers[0].parts[0].tensor.dtype = Dtype::bf16;
  expect_refused(product(4, 12), half, "is bf16 of 2 dimensions");
  const Reshard flat = one_tensor({8}, Dtype::f32, hosts_by_devices(2, 1), "S0", hosts_by_devices(2, 1), "R");
  expect_refused(product(4, 1), flat, "is f32 of 1 dimensions");
}

TEST(ReshardStream, OneTensorOfOnePartIsMade) {
  Reshard two = rows_to_columns();
  two.transfers.push_back(two.transfers[0]);
  expect_refused(product(4, 12), two, "2 transfers");
  Reshard parts = rows_to_columns();
  parts.transfers[0].parts.push_back(parts.transfers[0].parts[0]);
  expect_refused(product(4, 12), parts, "the first of 2 parts");
  Reshard none = rows_to_columns();
  none.transfers.clear();
  expect_refused(product(4, 12), none, "0 transfers, the first of 0 parts");
}

TEST(ReshardStream, WhatStaysOnTheRankIsRefused) {
  Producer residual = product(4, 12);
  residual.residual = true;
  expect_refused(residual, rows_to_columns(), "a residual is added where the output stays");
  Producer window = product(4, 12);
  window.kind = ProducerKind::window;
  expect_refused(window, rows_to_columns(), "use a gemm or a copy");
}

}  // namespace
}  // namespace weft::resharding
