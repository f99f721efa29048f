#include "cli/out_file.h"

#include <CLI/CLI.hpp>

#include "weft/base/os/new_file.h"
#include "weft/transport/local/shm.h"

namespace weft::cli {
namespace {

std::string check(const std::string& path) {
  if (!launched() || launched_rank() == 0) check_writable(path);  // rank 0 writes; another host may lack the folder
  return {};
}

}  // namespace

CLI::Option* add_out_file(CLI::App& app, const std::string& flag, std::string* path, const std::string& help) {
  return app.add_option(flag, *path, help)->type_name("FILE")->check(check);
}

}  // namespace weft::cli
