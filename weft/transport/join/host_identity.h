// Which host a process is on. Ranks of one host share memory, so what matters is not what the machine is called:
// virtual hosts have one kernel, one name and one boot id, and differ in their network namespace; abstract sockets, by
// which ranks of a host find each other, do not reach beyond that either.
#pragma once

#include <string>

namespace weft {

// NAME or NAME/ID: what this host goes by, and optionally what tells it from others that go by the same name. Set by
// `weft run` for its ranks, since only ranks of one launcher share its control block; for tests, to have several
// hosts on one machine; and for machines that all bear one name.
inline constexpr const char* kHostEnv = "WEFT_HOST";

struct HostIdentity {
  std::string name;  // for messages
  std::string id;    // equal where and only where ranks share a host
};

// From the environment, or else the machine's name, and its boot id with the inode of its network namespace.
HostIdentity host_identity();

std::string host_name();

}  // namespace weft
