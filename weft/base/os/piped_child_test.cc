#include "weft/base/os/piped_child.h"

#include <signal.h>

#include <functional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(PipedChild, AnswersLineByLine) {
  PipedChild child({"/bin/cat"});
  for (const char* line : {"one", "", "a third line"}) {
    child.write(line);
    EXPECT_EQ(child.read(5s), line);
  }
  const std::string longer(1 << 20, 'x');
  PipedChild counter({"/bin/sh", "-c", "while read -r line; do echo ${#line}; done"});
  counter.write(longer);
  EXPECT_EQ(counter.read(60s), "1048576");
}

std::pair<Code, std::string> failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {Code::internal, "did not throw"};
}

TEST(PipedChild, SaysThatItEndedOrIsSilent) {
  PipedChild gone({"/bin/sh", "-c", "echo last"});
  EXPECT_EQ(gone.read(5s), "last");
  EXPECT_EQ(failure([&] { gone.read(5s); }), std::pair(Code::io, std::string("\"/bin/sh\" has ended")));
  const auto talk = [&] {  // its two ends close one after the other
    for (int i = 0; i < 1000; ++i) gone.write("anybody?"), std::this_thread::sleep_for(1ms);
  };
  EXPECT_NE(failure(talk).second.find("takes no more input"), std::string::npos) << "and no SIGPIPE";
  PipedChild silent({"/bin/cat"});
  EXPECT_EQ(failure([&] { silent.read(20ms); }).first, Code::deadline);
  EXPECT_NE(failure([] { PipedChild({"/no/such/program"}); }).second.find("cannot start \"/no/such/program\""),
            std::string::npos);
}

TEST(PipedChild, IsGoneWithItsOwner) {
  pid_t pid = 0;
  {
    PipedChild stubborn({"/bin/sh", "-c", "echo $$; exec 0<&-; sleep 100"});
    pid = std::stoi(stubborn.read(5s));
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0) << "killed, though it did not look at its input";
}

}  // namespace
}  // namespace weft
