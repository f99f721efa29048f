#include "weft/transport/join/host_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include <fmt/core.h>

namespace weft {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

HostIdentity host_identity() {
  if (const char* text = std::getenv(kHostEnv); text != nullptr && *text != '\0') {
    const std::string both(text);
    return {both.substr(0, both.find('/')), both};
  }
  std::string boot = "unknown";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  stat("/proc/self/ns/net", &network);
  return {host_name(), fmt::format("{}:{}", boot, network.st_ino)};
}

}  // namespace weft
