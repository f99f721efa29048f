// Where ranks of one host meet that no launcher of ours started: one of them serves the hub (rendezvous.h) from a
// thread, at an abstract socket whose name all of them know; the others connect, trying again until the deadline. From
// there on all is as under our own launcher (shm.h).
//
// An abstract socket has no file: it is gone with the rank that serves it, however that ends, and it is reached only
// from the same network namespace. Both sides ask the kernel for the other's user and refuse any but their own.
#pragma once

#include <string>
#include <vector>

#include "weft/transport/local/shm.h"

namespace weft {

struct Meeting {
  std::string name;          // of the socket: the same on all these ranks, and on no others
  std::string job;           // for messages: "this mpirun job"
  int rank = 0;              // of the world, as are:
  std::vector<int> ranks{};  // all those of this host, ascending; the first one serves
  int world_size = 1;
};

// Waits for the rank that serves, not for the others. deadline, naming that rank, where it does not come.
ShmSeat meet(const Meeting& meeting);

}  // namespace weft
