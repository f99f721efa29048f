// Lines from a descriptor, by someone who has other things to do while none comes. The descriptor stays the caller's;
// nothing else may read it meanwhile.
#pragma once

#include <chrono>
#include <string>

namespace weft {

class LineInput {
 public:
  explicit LineInput(int fd) : fd_(fd) {}

  enum class News { line, nothing, end };
  // Waits that long at most. line: `line` has the next one, without its line end; a last one needs none. end: there are
  // no more. Throws io where the descriptor cannot be read.
  News wait(std::chrono::milliseconds patience, std::string* line);

 private:
  bool take(std::string* line);

  int fd_;
  std::string held_;
  bool ended_ = false;
};

}  // namespace weft
