#include "weft/transport/wire/ucx_wire.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "weft/base/error.h"
#ifdef WEFT_UCX
#include <ucp/api/ucp.h>

#include "weft/transport/wire/ucx_messenger.h"
#endif

namespace weft {

bool UcxWire::remote_writes_wanted() {
  const char* text = std::getenv("WEFT_WIRE_PUT");
  const std::string_view asked = text == nullptr || *text == '\0' ? "auto" : text;
  if (asked == "always") return true;
  if (asked == "never") return false;
  if (asked != "auto") bad_input("WEFT_WIRE_PUT=\"{}\" is not known; use auto, always or never", asked);
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) != std::filesystem::directory_iterator();
}

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
