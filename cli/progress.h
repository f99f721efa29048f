// One line on standard error that is drawn again and again while something long runs. Silent unless a person watches:
// standard error must be a terminal.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft::cli {

class Progress {
 public:
  enum class Who { speaks, is_silent };
  explicit Progress(Who who);  // one rank speaks for all
  ~Progress();                 // the line goes when the work is done
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view text);                                      // replaces the line
  void show(std::string_view what, std::int64_t done, std::int64_t of);  // with a bar

 private:
  bool on_;
  bool drawn_ = false;
};

}  // namespace weft::cli
