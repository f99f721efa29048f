#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>

namespace weft::cli {
namespace {

std::atomic<const std::string*> interrupt_line{nullptr};  // one at a time: a command has one piece of long work

// Only what a signal handler may do: write, and end by the signal as if there had been no handler.
extern "C" void say_and_end(int signal) {
  if (const std::string* line = interrupt_line.load()) {
    [[maybe_unused]] const ssize_t wrote = ::write(STDERR_FILENO, line->data(), line->size());
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

SayWhenInterrupted::SayWhenInterrupted(std::string line) : line_(std::move(line)) {
  if (line_.empty()) return;
  interrupt_line = &line_;
  std::signal(SIGINT, say_and_end);
}

SayWhenInterrupted::~SayWhenInterrupted() {
  if (line_.empty()) return;
  std::signal(SIGINT, SIG_DFL);
  interrupt_line = nullptr;
}

}  // namespace weft::cli
