#include "weft/base/os/piped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/os/fd.h"

namespace weft {
namespace {

constexpr int kLowestCopy = 64;  // descriptors below are taken for other things in ranks

bool flows(const std::string& path) {
  if (path == "-") return true;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return !error && std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

// A file in memory that stays open until the process ends, and in the processes that it starts.
int memory_copy(const std::string& text, const std::string& path) {
  const Fd made(::memfd_create("weft", MFD_CLOEXEC));
  const int kept = made ? ::fcntl(made.get(), F_DUPFD, kLowestCopy) : -1;
  if (kept < 0) fail(Code::io, "cannot keep \"{}\" in memory: {}; give a plain file", path, std::strerror(errno));
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(kept, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail(Code::io, "cannot keep \"{}\" in memory: {}; give a plain file", path, std::strerror(errno));
    at += static_cast<std::size_t>(wrote);
  }
  return kept;
}

}  // namespace

std::string repeatable_path(const std::string& path, const PipedFileOptions& options) {
  if (!flows(path)) return path;
  if (const char* copy = std::getenv(options.variable.c_str()); copy != nullptr && *copy != '\0') return copy;
  if (!options.may_read)
    bad_input("\"{}\" can be read once, and every rank needs it; give a plain file that all ranks can open", path);
  const std::string text = read_text_file(path == "-" ? "/dev/stdin" : path, options.most_bytes);
  const std::string copy = fmt::format("/proc/self/fd/{}", memory_copy(text, path));
  ::setenv(options.variable.c_str(), copy.c_str(), 1);
  return copy;
}

}  // namespace weft
