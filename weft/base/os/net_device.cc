#include "weft/base/os/net_device.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

#include "weft/base/os/fd.h"

namespace weft {

bool wait_until_running(const std::string& device, std::chrono::milliseconds limit) {
  const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto until = std::chrono::steady_clock::now() + limit;
  ifreq request{};
  std::strncpy(request.ifr_name, device.c_str(), sizeof request.ifr_name - 1);
  while (true) {
    const bool known = any && ioctl(any.get(), SIOCGIFFLAGS, &request) == 0;
    if (known && (request.ifr_flags & IFF_UP) != 0 && (request.ifr_flags & IFF_RUNNING) != 0) return true;
    if (!known || std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace weft
