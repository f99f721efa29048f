#include "cli/progress.h"

#include <unistd.h>

#include <string>

#include <fmt/core.h>

#include "weft/base/index.h"

namespace weft::cli {
namespace {

constexpr const char* kClearLine = "\r\033[K";
constexpr int kBar = 24;

}  // namespace

Progress::Progress(Who who) : on_(who == Who::speaks && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "{}", kClearLine);
}

void Progress::show(std::string_view text) {
  if (!on_) return;
  drawn_ = true;
  fmt::print(stderr, "{}{}", kClearLine, text);
  std::fflush(stderr);
}

void Progress::show(std::string_view what, std::int64_t done, std::int64_t of) {
  if (!on_) return;
  const int filled = of > 0 ? kBar * done / of : 0;
  show(fmt::format("{} [{}{}] {}/{}", what, std::string(num(filled), '#'), std::string(num(kBar - filled), '.'), done,
                   of));
}

}  // namespace weft::cli
