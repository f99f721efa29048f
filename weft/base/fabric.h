// How hosts are joined: what of their traffic shares a link.
#pragma once

namespace weft {

//   nic    a host has one link out and one link in, and all its traffic shares them
//   pairs  one link for every ordered pair of hosts
enum class Fabric { nic, pairs };

}  // namespace weft
