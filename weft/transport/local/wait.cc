#include "weft/transport/local/wait.h"

#include <cmath>
#include <cstdlib>
#include <optional>

#include "weft/base/error.h"

namespace weft {
namespace {

std::optional<std::chrono::nanoseconds> seconds_from_env(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end != '\0' || !std::isfinite(seconds) || seconds <= 0 || seconds > 1e7)
    bad_input("{}=\"{}\" is not a positive number of seconds; use for example {}=10", name, text, name);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

}  // namespace

Patience patience_from_env() {
  Patience patience;
  if (const auto silence = seconds_from_env("WEFT_DEADLINE_S")) {
    patience.silence = *silence;
    patience.total = 10 * *silence;
  }
  if (const auto total = seconds_from_env("WEFT_WAIT_S")) patience.total = *total;
  return patience;
}

}  // namespace weft
