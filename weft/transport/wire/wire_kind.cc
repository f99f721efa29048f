#include "weft/transport/wire/wire_kind.h"

#include <cstdlib>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/transport/wire/tls_stream.h"
#ifdef WEFT_UCX
#include <ucp/api/ucp.h>
#endif

namespace weft {

std::optional<WireKind> parse_wire(std::string_view text) {
  for (const WireKind kind : {WireKind::tls, WireKind::ucx, WireKind::trusted_ucx})
    if (text == to_string(kind)) return kind;
  return {};
}

std::optional<WireKind> wire_from_env() {
  const char* text = std::getenv("WEFT_LINK");
  return text == nullptr ? std::nullopt : parse_wire(text);
}

std::string_view to_string(WireKind kind) {
  return kind == WireKind::tls ? "tls" : kind == WireKind::ucx ? "ucx" : "ucx,trusted";
}

std::string_view transport_name(WireKind kind) { return kind == WireKind::tls ? "tls" : "ucx"; }

bool available(WireKind kind) { return kind == WireKind::tls ? tls_available() : !ucx_version().empty(); }

bool has_rdma_device() {
  std::error_code none;
  return std::filesystem::directory_iterator("/sys/class/infiniband", none) != std::filesystem::directory_iterator();
}

#ifdef WEFT_UCX
std::string ucx_version() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}
#else
std::string ucx_version() { return {}; }
#endif

}  // namespace weft
