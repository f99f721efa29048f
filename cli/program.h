// The weft program.
#pragma once

#include <string_view>

namespace weft::cli {

int program(int argc, char** argv);  // returns its exit code

// "weft: ..." and a newline. Unlike fmt::print this throws nothing where standard error cannot be written: there is
// nobody left to tell.
void say(std::string_view line);

}  // namespace weft::cli
