// One op's stores and signals to ranks of other hosts, as one rank makes them (transport/wire/wire.h). A lane's rows go
// into the wire's staging, where they are made or copied to, and stay in the thread's Outbox until the lane signals:
// the last rows to a rank take the lane's signals to that rank along, so that data and signal are one message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/index.h"
#include "weft/exec/cpu/memory.h"
#include "weft/kernel/rows/sum.h"
#include "weft/transport/wire/wire.h"

namespace weft {

class Transport;

// A part of a lane for another host: rows x cols, to be stored at `place`, an address of the target's segment (a range
// without memory here). Values travel as `dtype`, int8 in whole blocks; bf16 ones are widened where they land, if f32
// is kept there.
struct Outgoing {
  std::int64_t rows = 0, cols = 0;
  Strip place;
  Dtype dtype = Dtype::f32;

  std::size_t bytes() const { return num(rows * row_bytes(dtype, cols)); }
};

// What the lane under way has for other hosts. Every thread has its own.
struct Outbox {
  struct Staged {
    int target;
    Rows to;
    std::byte* data;
  };
  struct Raise {
    int target;
    RemoteCounter counter;
  };
  std::vector<Staged> staged;  // at most one per target, in the order they were staged
  std::vector<Raise> raises;
  std::vector<RemoteCounter> counters;  // scratch of post()
  std::vector<ConstStrip> parts;        // scratch of store()
  std::size_t bytes = 0;                // of `staged`
};

class Remote {
 public:
  // `segment` is that of the op.
  Remote(const Memory& memory, std::uint32_t segment, int rank, Transport& transport);

  bool is_remote(int target) const { return is_remote_[target]; }
  // The most that can be staged in one piece.
  std::int64_t most_bytes() const { return most_bytes_; }

  // Whether the wire has so much to send that triggers wait between tiles.
  bool is_backed_up() const;

  Outbox outbox() const;
  // Memory for it, to be filled before the lane signals.
  Strip stage(int target, const Outgoing& outgoing, Outbox& out) const;
  // Stores the sum of the sources at `to`, in pieces that can be staged: some rows, or a part of one.
  void store(int target, std::int64_t rows, std::int64_t cols, std::span<const ConstStrip> sources, const Strip& to,
             Outbox& out) const;
  void raise(int target, std::int64_t counter, Outbox& out) const;
  // The lane is done: sends what it staged, with its signals.
  void post(Outbox& out) const;

 private:
  void send(const Outbox::Staged& staged, Outbox& out) const;

  const Memory& memory_;
  std::uint32_t segment_;
  Wire& wire_;
  std::vector<char> is_remote_;
  std::vector<int> world_rank_;
  std::int64_t most_bytes_;
};

}  // namespace weft
