// Chat templates: the part of Jinja that model folders use to turn messages into a prompt. Templates come from the
// Internet, so nothing in them can reach files or memory outside, and one that runs away is stopped: steps, depth and
// output are bounded. What is not done is refused in a sentence with the file and the line.
//
// Done: {{ }}, {% if for set macro generation raw break continue %}, {# #}, space control as transformers sets it;
// strings, numbers, lists, dictionaries, slices, + - * / // % ~ and or not in is, x if y else z; the filters, tests and
// methods listed in filters.cc and methods.cc; range, namespace, dict, raise_exception, strftime_now.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "weft/io/jinja/syntax.h"
#include "weft/io/jinja/value.h"

namespace weft::jinja {

struct RenderOptions {
  std::time_t now = 0;  // what strftime_now tells, in local time; 0: the clock
  std::size_t most_steps = 2'000'000;
  std::size_t most_bytes = std::size_t{16} << 20;
};

class Template {
 public:
  static Template parse(std::string_view text, std::string where);  // throws bad_input

  // Throws bad_input: what is not done, what the template itself refuses (raise_exception), what runs away.
  std::string render(const Dict& variables, const RenderOptions& options = {}) const;

 private:
  std::string where_;
  std::shared_ptr<const Body> body_;
};

}  // namespace weft::jinja
