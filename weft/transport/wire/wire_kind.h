// Which wire joins hosts: a word of --link and WEFT_LINK.
//   tls          TCP under TLS 1.3 with the world's secret as key: what ranks take between hosts without RDMA
//   ucx          UCX over RDMA devices alone: what they take where all hosts have them
//   ucx,trusted  UCX over whatever it finds, TCP too, on a network where everybody may be trusted: UCX's TCP port takes
//                anyone, and its put message writes any address of the process
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace weft {

enum class WireKind { tls, ucx, trusted_ucx };

std::optional<WireKind> parse_wire(std::string_view text);  // none where it is no such word
std::optional<WireKind> wire_from_env();                    // that WEFT_LINK names, if it names one
std::string_view to_string(WireKind kind);
std::string_view transport_name(WireKind kind);  // "tls" or "ucx"

bool available(WireKind kind);  // in this build
std::string ucx_version();      // "1.13.1"; empty where it is not available
bool has_rdma_device();         // this machine, /sys/class/infiniband

}  // namespace weft
