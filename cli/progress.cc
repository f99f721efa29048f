#include "cli/progress.h"

#include <unistd.h>

#include <string>

#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/index.h"

namespace weft::cli {
namespace {

constexpr const char* kClearLine = "\r\033[K";
constexpr int kBar = 24;

}  // namespace

Progress::Progress(Who who) : on_(who == Who::speaks && isatty(STDERR_FILENO) == 1), last_ns_(now_ns()) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "{}", kClearLine);
}

void Progress::show(std::string_view text) {
  if (!on_) return;
  drawn_ = true;
  fmt::print(stderr, "{}{}", kClearLine, text);
  std::fflush(stderr);
}

void Progress::show(std::string_view what, std::int64_t done, std::int64_t of, std::string_view unit) {
  if (!on_) return;
  if (what != what_) {
    what_ = what;
    began_ns_ = last_ns_;
  }
  last_ns_ = now_ns();
  show(progress_line({what, unit, done, of, seconds_since(began_ns_)}));
}

std::string progress_line(const Counted& counted) {
  const auto& [what, unit, done, of, seconds] = counted;
  const int filled = of > 0 ? static_cast<int>(kBar * done / of) : 0;
  std::string line = fmt::format("{} [{}{}] {}/{}{}{}", what, std::string(num(filled), '#'),
                                 std::string(num(kBar - filled), '.'), done, of, unit.empty() ? "" : " ", unit);
  if (done > 0 && done < of && seconds >= 1)
    line += fmt::format(", {} left", time_text(seconds * static_cast<double>(of - done) / static_cast<double>(done)));
  return line;
}

std::string time_text(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s >= 3600 ? fmt::format("{} h {} min", s / 3600, s % 3600 / 60)
         : s >= 60 ? fmt::format("{} min {} s", s / 60, s % 60)
                   : fmt::format("{} s", s);
}

}  // namespace weft::cli
