#include "weft/base/os/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace weft {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }
Fd open_null() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(Fd, ClosesWhatItOwnsOnce) {
  int fd = -1;
  {
    const Fd owner = open_null();
    fd = owner.get();
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
  EXPECT_FALSE(Fd());
}

TEST(Fd, MovingHandsItOver) {
  Fd first = open_null();
  const int fd = first.get();
  Fd second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): what is left behind owns nothing
  EXPECT_EQ(second.get(), fd);
  Fd third;
  third = std::move(second);
  EXPECT_EQ(third.get(), fd);
  EXPECT_TRUE(is_open(fd));
}

}  // namespace
}  // namespace weft
