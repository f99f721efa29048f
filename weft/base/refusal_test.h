// What a refused call says, for tests of messages.
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {

inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    return error.what();
  }
  return "did not throw";
}

}  // namespace weft
