// A timeline as text in the trace-event format that Perfetto and chrome://tracing open: one writer for real runs and
// simulated ones. A process is a rank (or "links"), a thread is one row of slices, and slices of a row nest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

class TraceText {
 public:
  static constexpr int kLinks = 1 << 20;  // the process of links, below all ranks
  struct Row {
    int process = 0, thread = 0;
  };
  // `sort` orders processes from top to bottom.
  void name_process(int process, std::string_view name, int sort);
  void name_row(Row row, std::string_view name);
  // `args` is empty or the inside of a JSON object: "\"tile\": 3".
  void slice(Row row, std::string_view name, std::string_view category, double begin_us, double duration_us,
             std::string_view args = {});

  bool empty() const { return events_.empty(); }
  const std::string& events() const { return events_; }  // objects, a comma after each
  void append(std::string_view events) { events_ += events; }

  // A whole file from the events of several parts.
  static std::string file(const std::vector<std::string>& parts);

 private:
  std::string events_;
};

}  // namespace weft
