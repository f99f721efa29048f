#include "weft/transport/ucx_wire.h"

#include "weft/base/error.h"
#ifdef WEFT_UCX
#include <ucp/api/ucp.h>

#include "weft/transport/ucx_messenger.h"
#endif

namespace weft {

#ifdef WEFT_UCX
bool UcxWire::available() { return true; }

std::string UcxWire::version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::unique_ptr<UcxWire> UcxWire::make(WireHost host) { return std::make_unique<UcxMessenger>(std::move(host)); }
#else
bool UcxWire::available() { return false; }

std::string UcxWire::version() { return {}; }

std::unique_ptr<UcxWire> UcxWire::make(WireHost) {
  bad_input("this Weft was built without UCX, which ranks on several hosts need; install libucx-dev and build again");
}
#endif

}  // namespace weft
