// The weft program.
#pragma once

namespace weft::cli {

int program(int argc, char** argv);  // returns its exit code

}  // namespace weft::cli
