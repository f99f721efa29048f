// Runs the weft program as its users do: as a process, looking only at its exit code and what it prints.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace weft::testing {

struct Ended {
  int code = 0;  // 128 + signal where one ended it
  std::string out, err;
};

// `words` go through no shell; WEFT_BINARY is put before them. Waits for the end.
Ended weft(const std::vector<std::string>& words);
Ended weft(const std::string& words);  // separated by blanks

// The same, started and left running; standard output and error go to files.
struct Running {
  pid_t pid = -1;
  std::string out, err;  // paths
};
Running start_weft(const std::vector<std::string>& words);
Running start_program(const std::vector<std::string>& words);  // any other, looked for in PATH
Ended wait_for(const Running& running);

// Processes whose parent is `pid`, and whether a process is there (a zombie counts as gone).
std::vector<pid_t> children_of(pid_t pid);
bool alive(pid_t pid);

}  // namespace weft::testing
