// What the library has to say beside its results and errors, as that a peer is late but alive: a line now and then,
// never on the way of a run that goes well. The library prints nothing itself; where nobody asked, lines go nowhere.
#pragma once

#include <string_view>

namespace weft {

using Log = void (*)(std::string_view line);

// Whom to give lines to, from any thread; null: nobody. The function must not throw, and not call set_log.
void set_log(Log log);
void log_line(std::string_view line);
bool has_log();  // so that nobody words a line for nothing

}  // namespace weft
