#include "cli/out_file.h"

#include <CLI/CLI.hpp>

#include "weft/base/error.h"
#include "weft/base/os/new_file.h"
#include "weft/transport/local/shm.h"

namespace weft::cli {
namespace {

std::string why_not_writable(const std::string& path) {
  if (launched() && launched_rank() != 0) return {};  // rank 0 writes, and another host may lack the folder
  try {
    check_writable(path);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

CLI::Option* add_out_file(CLI::App& app, const std::string& flag, std::string* path, const std::string& help) {
  return app.add_option(flag, *path, help)->type_name("FILE")->check(why_not_writable);
}

}  // namespace weft::cli
