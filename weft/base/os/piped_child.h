// A program that this process started and talks to line by line: what it reads on standard input and writes on standard
// output are pipes, its standard error is ours. It ends by itself when its input ends; where it does not, it is killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "weft/base/os/fd.h"
#include "weft/base/os/line_input.h"

namespace weft {

class PipedChild {
 public:
  // The first word is the program's path. Throws io where it cannot be started.
  explicit PipedChild(const std::vector<std::string>& words);
  ~PipedChild();
  PipedChild(const PipedChild&) = delete;
  PipedChild& operator=(const PipedChild&) = delete;

  // Both throw io, naming the program, where it has ended; read() also deadline where no line has come in time.
  void write(const std::string& line);
  std::string read(std::chrono::milliseconds patience);

 private:
  std::string name_;
  pid_t pid_ = -1;
  Fd to_, from_;
  LineInput lines_;
};

}  // namespace weft
