// Threads that the transport starts beside the program's own. Signals are the program's business: its handlers must not
// run on a thread that it does not know, so these start with all signals blocked.
#pragma once

#include <csignal>
#include <functional>
#include <thread>

#include "weft/transport/local/memory.h"

namespace weft {

// Threads made while it lives, also by a library, start with all signals blocked.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

std::thread start_own_thread(std::function<void()> body);

// Makes an eventfd readable, so that the thread that polls it wakes up.
void wake(const Fd& event) noexcept;

}  // namespace weft
