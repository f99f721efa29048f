#include "cli/out_file.h"

#include <filesystem>

#include <CLI/CLI.hpp>

#include "weft/base/error.h"
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

void make_out_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) bad_input("cannot make the folder \"{}\": {}; give another --out", path, error.message());
}

}  // namespace weft::cli
