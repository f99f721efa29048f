// Two clocks. now_ns() is CLOCK_MONOTONIC, the same in all processes of a machine. ticks() is the cheapest counter
// there is, for stamps taken tile by tile; it becomes nanoseconds later, by comparing both clocks at two moments.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace weft {

inline std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }
inline double seconds_since(std::int64_t start_ns) { return (now_ns() - start_ns) * 1e-9; }

inline std::int64_t ticks() {
#if defined(__x86_64__)
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());  // 7 ns here, clock_gettime 25
#else
  return now_ns();
#endif
}

// One moment on both clocks.
struct Moment {
  std::int64_t ticks = 0, ns = 0;

  static Moment now() { return {weft::ticks(), now_ns()}; }
};

// Nanoseconds of a stamp, on the line through two moments.
inline std::int64_t to_ns(std::int64_t stamp, const Moment& a, const Moment& b) {
  if (b.ticks == a.ticks) return a.ns;
  const double rate = static_cast<double>(b.ns - a.ns) / static_cast<double>(b.ticks - a.ticks);
  return a.ns + static_cast<std::int64_t>((stamp - a.ticks) * rate);
}

}  // namespace weft
