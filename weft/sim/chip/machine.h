// The inside of simulate(): the state of all devices, and who reacts to which event. machine_compute.cc has the CUs,
// machine_move.cc counters, tracker, DMA, collective kernels and links.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "weft/sim/chip/cache.h"
#include "weft/sim/chip/engine.h"
#include "weft/sim/chip/memory.h"
#include "weft/sim/chip/run.h"
#include "weft/sim/chip/tracker.h"
#include "weft/sim/chip/work.h"

namespace weft::sim {

class Machine {
 public:
  Machine(const Work& work, const Chip& chip, const RunOptions& options);
  RunResult run();

 private:
  static constexpr std::int32_t kMaxAhead = kMaxPrefetch + 1;
  enum EventKind : int { memory_served, slice_done, slot_wakes, slot_free, kernel_turn, dma_free, arrives };
  enum RequestKind : std::int16_t { nothing, panel, tile_stored, sources_read, kernel_read, dma_read, arrived };

  struct Slot {  // a workgroup's place on a CU
    enum class State { idle, starts, loops, ends };
    State state = State::idle;
    struct Ahead {  // a slice whose operands were asked for
      std::int32_t missing = 0;
      Time ready = 0;  // when they are there, where none is missing
    };
    bool computing = false, waking = false;
    std::int32_t lane = -1, slice = -1;  // slice: the one that is multiplied, or was last
    std::int32_t asked = 0;              // slices whose operands were asked for
    std::array<Ahead, kMaxAhead> ahead;  // by slice, modulo their number
    Time begun = 0;
  };
  struct Device {
    Device(const DeviceWork& work, const Chip& chip, const RunOptions& options, const Producer& producer,
           Engine* engine, int number);
    const DeviceWork& work;
    Memory memory;
    Cache cache;
    Tracker tracker;
    std::vector<Slot> slots;
    std::vector<std::int32_t> parked;        // slot that waits for a lane's gate, or -1
    std::vector<std::int32_t> first_waiter;  // of every panel block: -2 absent, -1 none, else into waiters
    struct Waiter {
      std::int32_t slot, slice, next;
    };
    std::vector<Waiter> waiters;
    std::vector<std::int32_t> free_waiters;
    std::vector<std::uint32_t> counters;
    std::vector<std::int32_t> pending;  // of every gate
    std::vector<std::uint8_t> stored;   // own contribution of every lane is in memory
    std::size_t next_step = 0;
    // Steps of a collective's kernel: those that send, those that stay here, and how far each list has come.
    std::vector<std::int32_t> sends, stays;
    std::size_t next_send = 0, next_stay = 0;
    std::int64_t steps_left = 0;
    std::deque<std::int32_t> kernel_queue, dma_queue;
    Time kernel_free = 0, link_free = 0;
    bool kernel_turn_due = false;
    std::int64_t dma_bytes = 0;  // under way
    bool probed = false;
    std::int64_t link_bytes = 0;
  };

  // machine.cc
  void start(int d);
  void react(const Event& event);
  void complete(int d, const Request& request);
  void record(int d);
  Device& at(int d) { return devices_[static_cast<std::size_t>(d)]; }
  const WorkLane& lane(int d, std::int32_t l) { return at(d).work.lanes[static_cast<std::size_t>(l)]; }
  const WorkAction& action(int d, std::int32_t l) {
    return at(d).work.actions[static_cast<std::size_t>(lane(d, l).action)];
  }
  std::int64_t bytes_of(int d, std::int32_t l) {
    return static_cast<std::int64_t>(lane(d, l).rows) * lane(d, l).cols * options_.element_bytes;
  }
  bool is_open(int d, std::int32_t l) { return at(d).pending[static_cast<std::size_t>(lane(d, l).gate)] == 0; }
  bool tracks() const { return options_.mover == Mover::tracker; }

  // machine_compute.cc
  void claim(int d, std::int32_t slot);
  void begin_lane(int d, std::int32_t slot);
  void load(int d, std::int32_t slot, std::int32_t slice);
  void ask_ahead(int d, std::int32_t slot);
  void want_block(int d, std::int32_t slot, std::int32_t slice, std::int32_t block);
  void block_came(int d, std::int32_t block);
  std::int64_t block_bytes(int d, std::int32_t block);
  void try_slice(int d, std::int32_t slot);
  void end_slice(int d, std::int32_t slot);
  void end_lane(int d, std::int32_t slot);
  void store_lane(int d, std::int32_t slot);
  void free_slot(int d, std::int32_t slot, Time when);
  void step_ended(int d);

  // machine_move.cc
  void raise(int d, std::int32_t counter);
  void raise_all(int d, Part signals, std::int32_t lane_index);
  void gate_opened(int d, std::int32_t gate);
  void lane_opened(int d, std::int32_t l);
  void fire(int d, std::int32_t l);
  void own_stored(int d, std::int32_t l);
  void maybe_complete(int d, std::int32_t l);
  void spill(int d);
  void pump_kernel(int d);
  std::int32_t next_for_kernel(int d, bool has_room);
  void kernel_moved(int d, std::int32_t l);
  void pump_dma(int d);
  void dma_moved(int d, std::int32_t l);
  void send(int d, std::int32_t target, std::int32_t l, Time from);
  void arrive(int d, std::int32_t target, std::int32_t l);
  Time link_has_room(int d);

  const Work& work_;
  const Chip& chip_;
  RunOptions options_;
  Engine engine_;
  std::vector<Device> devices_;
  bool sums_ = false;  // steps have sources, so what arrives is added
  bool is_copy_ = false;
  std::int32_t num_slices_ = 1;
  Time full_slice_ = 0, last_slice_ = 0;
  std::int64_t last_k_ = 0;
  Time llc_latency_, dram_latency_, link_latency_;
  RunResult result_;
};

}  // namespace weft::sim
