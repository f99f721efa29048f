// Files that can be read once only: standard input, a pipe, a shell's <(command). A command looks at its files before
// it starts ranks, and each rank reads them again; what flows through a pipe would be gone by then.
#pragma once

#include <cstddef>
#include <string>

namespace weft {

struct PipedFileOptions {
  std::string variable;  // of the environment, by which processes that are started from here find the copy
  // False in a process that another one started as one of several: the pipe is not its own to read, only the copy is.
  bool may_read = true;
  std::size_t most_bytes = std::size_t{64} << 20;
};

// A path that can be read any number of times and holds what `path` holds, for this process and for those it starts.
// "-" is standard input. A plain file, a folder and what is not there are given back as they are; anything else is read
// to its end and kept in memory. Throws bad_input where it is too long, or is not this process's to read.
std::string repeatable_path(const std::string& path, const PipedFileOptions& options);

}  // namespace weft
