// One line on standard error that is drawn again and again while something long runs. Silent unless a person watches:
// standard error must be a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::cli {

class Progress {
 public:
  enum class Who { speaks, is_silent };
  explicit Progress(Who who);  // one rank speaks for all
  ~Progress();                 // the line goes when the work is done
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::string_view text);  // replaces the line
  // With a bar, what is counted ("windows"; may be empty) and how long the rest takes at the rate seen so far.
  void show(std::string_view what, std::int64_t done, std::int64_t of, std::string_view unit = "");

 private:
  bool on_;
  bool drawn_ = false;
  std::string what_;           // of the last bar
  std::int64_t began_ns_ = 0;  // when the work of that bar began: the last time something else was shown
  std::int64_t last_ns_ = 0;
};

struct Counted {
  std::string_view what, unit;
  std::int64_t done = 0, of = 0;
  double seconds = 0;  // since the first began
};
std::string progress_line(const Counted& counted);
std::string time_text(double seconds);  // "2 h 5 min", "3 min 20 s", "7 s"

}  // namespace weft::cli
