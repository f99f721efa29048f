#include "weft/base/error.h"

namespace weft {

const char* to_string(Code code) {
  switch (code) {
    case Code::bad_input:
      return "bad_input";
    case Code::no_memory:
      return "no_memory";
    case Code::peer_failed:
      return "peer_failed";
    case Code::deadline:
      return "deadline";
    case Code::io:
      return "io";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace weft
