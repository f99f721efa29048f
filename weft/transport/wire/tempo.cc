#include "weft/transport/wire/tempo.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kBatch = 64 << 10;             // bytes to be received at a time
constexpr double kLongest = 1e6;                // ns
constexpr std::uint64_t kWindow = 1 << 20;      // bytes over which a rate is taken: 8 messages
constexpr double kSlowest = 0.02;               // bytes a ns; below, 64 KB take more than three of the longest naps
constexpr std::chrono::milliseconds kPause{5};  // with no message: the stream is over
// A stream is on while its rate is 0.8 of the best. That fades by 2 % a window: streams that the naps had slowed down
// are tried again after 11 windows.
constexpr double kNearBest = 0.8, kFade = 0.98;

}  // namespace

void Tempo::start_window(std::uint64_t bytes, Clock::time_point now) {
  window_start_ = now;
  window_bytes_ = bytes;
}

std::chrono::nanoseconds Tempo::nap(std::uint64_t bytes, Clock::time_point now) {
  if (bytes != last_bytes_) {
    const bool paused = now - last_news_ > kPause;
    last_news_ = now;
    last_bytes_ = bytes;
    if (paused) {
      streaming_ = false;
      start_window(bytes, now);
    }
  }
  if (bytes - window_bytes_ >= kWindow && now > window_start_) {
    rate_ = static_cast<double>(bytes - window_bytes_) /
            std::chrono::duration<double, std::nano>(now - window_start_).count();
    best_rate_ = std::max(rate_, kFade * best_rate_);
    streaming_ = rate_ >= kSlowest && rate_ >= kNearBest * best_rate_;
    start_window(bytes, now);
  }
  if (!streaming_ || now - last_news_ > kPause) return {};
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(kBatch / rate_, kLongest)));
}

}  // namespace weft
