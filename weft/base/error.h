// One error type for the whole library. The library never prints, exits or aborts: it throws this, and
// only cli/ turns it into a sentence and an exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace weft {

enum class Code {
  bad_input,    // a value the caller gave cannot be used; the message names it and the remedy
  no_memory,    // the machine has not enough of it
  peer_failed,  // another rank died or fell silent
  deadline,     // a wait took longer than it may
  io,           // a file or socket could not be read or written
  internal,     // a promise of Weft itself was broken
};

const char* to_string(Code code);

class Error : public std::runtime_error {
 public:
  explicit Error(Code code, const std::string& message, int rank = -1, std::string host = {})
      : std::runtime_error(message), code_(code), rank_(rank), host_(std::move(host)) {}

  Code code() const { return code_; }
  int rank() const { return rank_; }  // the rank that failed, -1 where none is to blame
  const std::string& host() const { return host_; }

  // What this rank did last, a line an event, where a run failed (exec/cpu/record.h); empty otherwise.
  const std::string& record() const { return record_; }
  void attach_record(std::string record) { record_ = std::move(record); }

 private:
  Code code_;
  int rank_;
  std::string host_;
  std::string record_;
};

template <typename... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void bad_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(Code::bad_input, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft
