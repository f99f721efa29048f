// The inside of a run: seats, which act for ranks, and what they have counted. run.cc sets it up and sums it up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/sim/net/digits.h"
#include "weft/sim/net/outbox.h"
#include "weft/sim/net/ready_queue.h"
#include "weft/sim/net/run.h"

namespace weft::netsim {

// One job made ready.
struct Cast {
  const Plan* plan = nullptr;
  Scripts scripts;
  Digits digits;                       // where the script is shared
  std::vector<int> node_of;            // per rank: its rank on the network
  std::vector<std::int32_t> seat_of;   // per rank: who acts for it
  std::vector<std::int32_t> class_of;  // per rank
  int first_seat = 0, num_seats = 0;
  Time begin = 0;
};

class Machine {
 public:
  Machine(const std::vector<Cast>& casts, const Topology& topology, std::vector<std::int32_t> canonical,
          bool keep_slices);

  void run();  // throws bad_input where it gets stuck

  Time end(std::size_t job) const { return ends_[job]; }
  Time chain() const { return chain_; }
  Time busiest() const;
  std::int64_t events() const { return events_; }
  std::int64_t messages() const { return outbox_.messages(); }
  std::int64_t bytes() const { return outbox_.bytes(); }
  const Wires& wires() const { return wires_; }
  const std::vector<StepSlice>& steps() const { return steps_; }

 private:
  struct Seat {
    std::int32_t job = 0, rank = 0, node = 0, seat_class = 0;
    const Script* script = nullptr;
    std::size_t first_cell = 0, first_burst = 0, stride = 1;
    std::int32_t next_step = 0;
    bool is_busy = false;
    double slower = 1;
    Time step_chain = 0, computed = 0, step_begin = 0;
  };
  struct Cell {
    Time chain = 0;
    std::uint32_t value = 0;
  };

  void seat_ranks();
  void begin(std::int32_t seat);
  void raise(std::int32_t seat, const Send& send, const Script& sender, Time chain);
  void drain(std::int32_t seat);       // fires triggers that are ready, then steps
  bool start_step(std::int32_t seat);  // true where one was made at once
  void finish(std::int32_t seat, std::int32_t burst, Time chain);
  Time chain_of(const Seat& seat, const Burst& burst) const;
  std::int32_t& missing(const Seat& seat, std::int32_t burst) {
    return missing_[seat.first_burst + num(burst) * seat.stride];
  }
  std::int32_t missing(const Seat& seat, std::int32_t burst) const {
    return missing_[seat.first_burst + num(burst) * seat.stride];
  }
  std::size_t cell_at(const Seat& seat, std::int32_t cell) const { return seat.first_cell + num(cell) * seat.stride; }
  std::int32_t rank_of(const Seat& seat, std::int32_t to) const {
    const Cast& cast = casts_[at(seat.job)];
    return cast.scripts.shared ? cast.digits.add(seat.rank, to) : to;
  }
  void note_end(const Seat& seat, Time chain);
  void begin_instant(const Event& event);

  // stuck.cc
  struct Blocked {
    std::int32_t seat, burst;
  };
  [[noreturn]] void report_stuck() const;
  bool has_fired(const Seat& seat, std::int32_t burst) const { return missing(seat, burst) < 0; }
  Blocked first_blocked() const;
  bool find_raiser(const Blocked& waiting, std::int32_t cell, Blocked* raiser) const;
  std::string name_of(const Blocked& blocked) const;

  const std::vector<Cast>& casts_;
  const Topology& topology_;
  const bool keep_slices_;
  Wires wires_;
  EventHeap heap_;
  Outbox outbox_{&wires_, &heap_};
  std::vector<Seat> seats_;
  std::vector<Cell> cells_;
  std::vector<std::int32_t> missing_;  // cells that a burst still needs; -1: it has been fired
  ReadyQueue ready_;                   // triggers of the seat whose event it is
  std::vector<StepSlice> steps_;
  std::vector<Time> ends_;
  Time now_ = 0, chain_ = 0;
  std::uint64_t round_ = 0;
  std::int64_t events_ = 0, left_ = 0;
};

}  // namespace weft::netsim
