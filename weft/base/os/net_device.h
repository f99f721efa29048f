// Network devices of this host, or of the network namespace that this thread is in.
#pragma once

#include <chrono>
#include <string>

namespace weft {

// Whether the kernel says that the device can carry something. It says so up to a second after the device was brought
// up, and UCX takes no device before: so this waits, at most that long. False at once where there is no such device.
bool wait_until_running(const std::string& device, std::chrono::milliseconds limit);

}  // namespace weft
