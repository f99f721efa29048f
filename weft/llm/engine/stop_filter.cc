#include <algorithm>
#include <utility>

#include "weft/llm/engine/generate.h"

namespace weft {
namespace {

// The longest end of `text` that a stop begins with, the whole stop excepted.
std::size_t may_become(const std::string& text, const std::string& stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size)
    if (text.compare(text.size() - size, size, stop, 0, size) == 0) return size;
  return 0;
}

}  // namespace

std::string StopFilter::add(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t first = std::string::npos, hold = 0;
  for (const std::string& stop : stops_) {
    if (stop.empty()) continue;
    first = std::min(first, held_.find(stop));
    hold = std::max(hold, may_become(held_, stop));
  }
  std::string out;
  if (first != std::string::npos) {
    out = held_.substr(0, first);
    held_.clear();
    stopped_ = true;
    return out;
  }
  out = held_.substr(0, held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace weft
