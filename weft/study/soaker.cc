#include "weft/study/soaker.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "weft/base/cores.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kAlone{20};
constexpr int kTrials = 3;

// About a microsecond; the result is used, so that it is not left out.
std::uint64_t piece(std::uint64_t x) {
  for (int i = 0; i < 600; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}

}  // namespace

bool Soaker::possible() { return usable_cores() == 1; }

Soaker::Soaker() : thread_([this] { soak(); }) {
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t before = pieces_.load();
    on_ = true;
    std::this_thread::sleep_for(kAlone);
    const double pieces = pieces_.load() - before;
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    on_ = false;
    if (pieces > 0) piece_ns_ = piece_ns_ == 0 ? ns / pieces : std::min(piece_ns_, ns / pieces);
  }
}

Soaker::~Soaker() {
  end_ = true;
  thread_.join();
}

void Soaker::start() {
  before_ = pieces_.load();
  on_ = true;
}

double Soaker::stop() {
  on_ = false;
  return static_cast<double>(pieces_.load() - before_) * piece_ns_;
}

void Soaker::soak() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);
  std::uint64_t x = 1;
  while (!end_) {
    if (!on_) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      continue;
    }
    x = piece(x);
    pieces_.fetch_add(1 + (x == 0), std::memory_order_relaxed);
  }
}

}  // namespace weft
