#include "weft/kernel/isa.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(Isa, TheMachinesOwnIsTheLastReachable) {
  EXPECT_EQ(reachable_isas().front(), Isa::baseline);
  EXPECT_EQ(reachable_isas().back(), machine_isa());
  EXPECT_EQ(isa(), to_string(best_isa()));
}

TEST(Isa, WhatIsAskedForIsTaken) {
  const std::vector<Isa> three = {Isa::baseline, Isa::avx2, Isa::avx512};
  for (const Isa isa : three) EXPECT_EQ(choose_isa(to_string(isa).c_str(), three), isa);
  EXPECT_EQ(choose_isa(nullptr, three), Isa::avx512);
  EXPECT_EQ(choose_isa("", three), Isa::avx512);
  EXPECT_EQ(choose_isa("neon", {Isa::baseline, Isa::neon}), Isa::neon);
  EXPECT_EQ(best_isa(), choose_isa(std::getenv("WEFT_ISA"), reachable_isas()));
}

TEST(Isa, WhatIsUnknownOrNotHereIsRefusedInASentence) {
  for (const char* wanted : {"sse9", "avx512", "AVX2", "neon"}) try {
      choose_isa(wanted, {Isa::baseline, Isa::avx2});
      FAIL() << wanted;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      EXPECT_EQ(std::string(error.what()),
                std::string("WEFT_ISA is \"") + wanted +
                    "\", which is no instruction set of this machine; use baseline or avx2, or leave it unset");
    }
}

}  // namespace
}  // namespace weft
