// What a person who presses Ctrl-C is told before the program ends as it always does. For commands that keep what is
// done and go on from there when they are called again.
#pragma once

#include <string>

namespace weft::cli {

class SayWhenInterrupted {
 public:
  explicit SayWhenInterrupted(std::string line);  // with its newline; empty: nothing is said
  ~SayWhenInterrupted();                          // Ctrl-C says nothing any more
  SayWhenInterrupted(const SayWhenInterrupted&) = delete;
  SayWhenInterrupted& operator=(const SayWhenInterrupted&) = delete;

 private:
  std::string line_;
};

}  // namespace weft::cli
