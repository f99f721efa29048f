#include "weft/base/trace.h"

#include <iterator>

#include <fmt/core.h>

#include "weft/base/json.h"

namespace weft {

void TraceText::name_process(int process, std::string_view name, int sort) {
  fmt::format_to(std::back_inserter(events_),
                 R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}},)"
                 "\n"
                 R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}},)"
                 "\n",
                 process, quoted(name), process, sort);
}

void TraceText::name_row(Row row, std::string_view name) {
  fmt::format_to(std::back_inserter(events_),
                 R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}},)"
                 "\n",
                 row.process, row.thread, quoted(name));
}

void TraceText::slice(Row row, std::string_view name, std::string_view category, double begin_us, double duration_us,
                      std::string_view args) {
  fmt::format_to(std::back_inserter(events_),
                 R"({{"ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)"
                 "\n",
                 quoted(name), quoted(category), row.process, row.thread, begin_us, duration_us, args);
}

std::string TraceText::file(const std::vector<std::string>& parts) {
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  for (const std::string& part : parts) out += part;
  const std::size_t comma = out.rfind(',');
  if (comma != std::string::npos && comma + 2 == out.size()) out.erase(comma, 1);
  return out + "]}\n";
}

}  // namespace weft
