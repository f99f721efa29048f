#include "weft/transport/transport.h"

#include "weft/base/cores.h"
#include "weft/base/error.h"

namespace weft {

Transport::Transport(int rank, int size, int ranks_here)
    : rank_(rank), size_(size), ranks_here_(ranks_here), crowded_(ranks_here > usable_cores()) {
  if (size < 1 || rank < 0 || rank >= size) bad_input("rank {} of {} ranks does not exist", rank, size);
}

}  // namespace weft
