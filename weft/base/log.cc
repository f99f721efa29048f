#include "weft/base/log.h"

#include <atomic>

namespace weft {
namespace {

std::atomic<Log> current{nullptr};

}  // namespace

void set_log(Log log) { current.store(log); }

void log_line(std::string_view line) {
  if (const Log log = current.load()) log(line);
}

bool has_log() { return current.load() != nullptr; }

}  // namespace weft
