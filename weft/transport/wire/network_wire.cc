#include "weft/transport/wire/network_wire.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/transport/wire/messenger.h"
#include "weft/transport/wire/tls_carrier.h"
#ifdef WEFT_UCX
#include "weft/transport/wire/ucx_carrier.h"
#endif

namespace weft {
namespace {

std::unique_ptr<Carrier> make_ucx_carrier([[maybe_unused]] const WireHost& host,
                                          [[maybe_unused]] Carrier::Events& events) {
#ifdef WEFT_UCX
  return std::make_unique<UcxCarrier>(host, events);
#else
  bad_input("this Weft was built without UCX, which --link ucx needs; install libucx-dev and build again");
#endif
}

}  // namespace

bool NetworkWire::remote_writes_wanted() {
  const char* text = std::getenv("WEFT_WIRE_PUT");
  const std::string_view asked = text == nullptr || *text == '\0' ? "auto" : text;
  if (asked == "always") return true;
  if (asked == "never") return false;
  if (asked != "auto") bad_input("WEFT_WIRE_PUT=\"{}\" is not known; use auto, always or never", asked);
  return has_rdma_device();
}

std::unique_ptr<NetworkWire> NetworkWire::make(WireKind kind, WireHost host) {
  if (kind == WireKind::tls)
    return std::make_unique<Messenger>(std::move(host), [](const WireHost& its, Carrier::Events& events) {
      return std::make_unique<TlsCarrier>(its, events);
    });
  host.trusted = kind == WireKind::trusted_ucx;
  if (!host.trusted) host.device.clear();  // RDMA devices have names of their own
  return std::make_unique<Messenger>(std::move(host), make_ucx_carrier);
}

}  // namespace weft
