// Flags that name a file to write, as --svg FILE. Where it cannot be written the command says so before it begins, and
// not after an hour of measuring.
#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft::cli {

CLI::Option* add_out_file(CLI::App& app, const std::string& flag, std::string* path, const std::string& help);

// The folder of --out, made where it is not there. Throws bad_input.
void make_out_folder(const std::string& path);

}  // namespace weft::cli
