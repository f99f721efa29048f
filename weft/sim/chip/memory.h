// A memory controller and the DRAM behind it. Two streams, compute and communication, each first come first served;
// an arbiter lets them into a short queue before the banks; the banks serve that queue in order, a burst at a time.
//
//   fifo         the request that came first
//   round_robin  streams take turns of `grant_bytes`
//   mca          compute first; communication while the queue before the banks holds fewer than so many entries, or
//                once it has waited for `starvation_s`. How many: from the memory intensity of the kernel's first stage
//
// One controller stands for all: addresses interleave finely, so every burst is spread over all channels. A burst takes
// bytes / rate (times `update_factor` for a near-memory update), plus the turnaround where reads and writes change,
// plus the switch where streams change. Where round robin would cut a burst into several grants, as the other stream is
// waiting too, each of them pays: so costs follow bytes, not the resolution of the simulation.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>

#include "weft/sim/chip/chip.h"
#include "weft/sim/chip/engine.h"

namespace weft::sim {

enum class Policy { fifo, round_robin, mca };

enum class Stream { compute, communication };
enum class Access { read, write, update };
// What traffic is counted as. tracker: entries that did not fit and live in memory.
enum class Cause { producer_read, producer_write, collective_read, collective_write, tracker };
inline constexpr int kCauses = 5;

struct Request {
  std::int64_t bytes = 0;
  Stream stream = Stream::compute;
  Access access = Access::read;
  Cause cause = Cause::producer_read;
  std::int16_t kind = 0;  // the owner's: what to do when it is done
  std::int32_t a = 0, b = 0;
  Time arrived = 0;
  std::uint64_t order = 0;  // of arrival
};

class Memory {
 public:
  Memory(const Chip& chip, Policy policy, Engine* engine, int device, int served_kind);

  void submit(Request request);
  // On the event `served_kind`: the burst in service has ended; the request that it completes, if it does.
  std::optional<Request> served();

  // MCA: picks the threshold from what compute has used of the memory's time until now.
  void probe();
  int threshold() const { return threshold_; }

  std::int64_t bytes(Cause cause) const { return bytes_[static_cast<std::size_t>(cause)]; }
  Time busy() const { return busy_; }
  Time lost() const { return lost_; }  // of that to turnarounds and switches
  struct Serving {                     // the burst that ended last
    Time begin = 0;
    Request of;
    std::int64_t bytes = 0;
  };
  const Serving& finished() const { return finished_; }

 private:
  struct Burst {
    Request of;
    std::int64_t bytes = 0;
    bool ends = false;
    double cuts = 1;  // grants that it goes in
  };
  std::optional<Stream> chosen();
  void admit();
  void serve();
  Time cost(const Burst& burst);
  std::deque<Request>& waiting(Stream s) { return streams_[static_cast<std::size_t>(s)]; }

  const Chip& chip_;
  Policy policy_;
  Engine* engine_;
  int device_, served_kind_;
  std::array<std::deque<Request>, 2> streams_;
  std::deque<Burst> queue_;  // before the banks; its front is in service
  std::int64_t queued_bytes_ = 0;
  bool serving_ = false;
  Stream turn_ = Stream::compute;
  std::int64_t granted_ = 0;
  int threshold_;
  Stream last_stream_ = Stream::compute;
  bool last_reads_ = true;
  Time busy_ = 0, lost_ = 0, compute_busy_ = 0;
  std::array<std::int64_t, kCauses> bytes_{};
  Serving finished_;
  Time begun_ = 0;
  std::uint64_t arrivals_ = 0;
  double ps_per_byte_;
  Time turnaround_, switch_, starvation_;
};

}  // namespace weft::sim
