#include "weft/base/os/read_rate.h"

#include <gtest/gtest.h>

#include "weft/base/thread_pool.h"

namespace weft {
namespace {

// Between a tenth of any machine's memory and what no cache has.
TEST(ReadRate, IsThatOfMemory) {
  ThreadPool threads(1);
  const double rate = measured_read_bytes_per_s(threads);
  EXPECT_GT(rate, 1e7);
  EXPECT_LT(rate, 1e13);
}

}  // namespace
}  // namespace weft
