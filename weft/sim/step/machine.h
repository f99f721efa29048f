// The inside of a step's run: seats, which act for ranks, and what they have under way. run.cc sets it up and sums up.
//
//   seat      a rank's computing, its nodes that wait, and a queue of those that are ready to compute
//   instance  one collective of one group, from the first rank that enters it to the last that is done; a player per
//             seat in it. Its plan is compiled once for all instances (Compiled), and instances are used again
//   parcel    a send and its receive, whichever comes first
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/sim/net/digits.h"
#include "weft/sim/net/outbox.h"
#include "weft/sim/net/ready_queue.h"
#include "weft/sim/net/script.h"
#include "weft/sim/step/graph.h"

namespace weft::netsim {

struct Compiled {
  Scripts scripts;
  Digits digits;                    // where the script is shared
  std::vector<std::int32_t> comes;  // per place, or one for all: messages with data that it gets
  bool computes = false;            // its steps take time

  const Script& script(int place) const { return scripts.of[scripts.shared ? 0 : at(place)]; }
};

// What a rank does for the nodes of one name: sums over seats.
struct NameUse {
  std::int64_t count = 0;
  Time compute = 0, exposed = 0;
  Time comm = 0;  // of sends
};

struct NodeSlice {
  std::int32_t rank = 0, node = 0;
  Time begin = 0, end = 0;
};

struct StepStage {
  const StepGraph* graph = nullptr;
  std::vector<Compiled> shapes;
  std::vector<std::int32_t> seat_of, class_of;  // per rank
  std::vector<std::int32_t> rank_of;            // per seat
  std::vector<std::int32_t> canonical;          // per wire; empty: each for itself
  bool keep_slices = false;
};

class StepMachine {
 public:
  StepMachine(const StepStage& stage, const Topology& topology);

  void run();  // throws bad_input where it gets stuck: who waits for whom

  Time end() const { return end_; }
  Time chain() const { return chain_; }
  Time busiest() const;
  std::int64_t events() const { return events_; }
  std::int64_t messages() const { return outbox_.messages(); }
  std::int64_t bytes() const { return outbox_.bytes(); }
  const Wires& wires() const { return wires_; }
  const std::vector<NameUse>& uses() const { return uses_; }
  const std::vector<NodeSlice>& slices() const { return slices_; }

 private:
  struct Waiting {
    std::int32_t node = 0, blame = 0;  // blame: the name of what it waited for last
  };
  struct Seat {
    std::int32_t rank = 0, seat_class = 0, program = 0;
    std::vector<Waiting> queue;               // a heap, the first node on top
    std::int32_t node = -1;                   // that computes
    std::int32_t instance = -1, player = -1;  // where it is a fused plan
    bool steps = false;                       // one of its steps is being made
    bool has_begun = false, is_touched = false;
    std::uint32_t entered = 0;  // instances and sends so far
    std::int32_t burst = -1;    // that is being made
    double slower = 1;
    Time idle_since = 0, node_begin = 0, step_begin = 0, computed = 0, computed_before = 0, last_end = 0;
    std::int32_t last_name = 0;
    std::size_t first_node = 0;  // in missing_, chains_ and begins_
    std::int64_t left = 0;       // nodes
  };
  struct Cell {
    Time chain = 0;
    std::uint32_t value = 0;
  };
  struct Player {
    std::int32_t seat = -1, place = 0, node = -1, next_step = 0, left = 0, comes = 0;
    std::uint32_t ordinal = 0;
    bool is_done = false;
    const Script* script = nullptr;
    std::size_t first_cell = 0, first_burst = 0;
    Time step_chain = 0, entry_chain = 0;
  };
  struct Instance {
    std::int32_t shape = -1, communicator = 0, group = 0, done = 0, flying = 0;
    std::uint64_t key = 0;
    std::vector<Player> players;
    std::vector<Cell> cells;
    std::vector<std::int32_t> missing;
  };
  struct Parcel {
    std::uint64_t key = 0;
    std::int32_t from_seat = -1, from_node = -1, to_seat = -1, to_node = -1;
    bool has_come = false;
    Time chain = 0;
  };

  void seat_ranks();
  void index_programs();
  // Nodes.
  void settle();  // starts what is ready, until nothing is
  void start(std::int32_t seat, const Waiting& ready);
  void compute_next(std::int32_t seat);
  void finish_node(std::int32_t seat, std::int32_t node, Time chain);
  void free_computing(Seat* seat);
  void seat_event(std::int32_t seat);
  void arrive(const Message& message);
  void send(std::int32_t seat, std::int32_t node);
  void receive(std::int32_t seat, std::int32_t node);
  std::int32_t parcel_of(std::uint64_t key);
  void close_parcel(std::int32_t parcel);
  const StepNode& node_of(const Seat& seat, std::int32_t node) const {
    return stage_.graph->programs[at(seat.program)].nodes[at(node)];
  }
  std::size_t place_of(const Seat& seat, std::int32_t node) const { return seat.first_node + at(node); }

  // Instances.
  void enter(std::int32_t seat, std::int32_t node);
  std::int32_t instance_of(const Seat& seat, const StepNode& node);
  std::int32_t new_instance(std::int32_t shape, std::int32_t communicator, std::int32_t group);
  void reset(Instance* instance);
  int player_of(const Instance& instance, std::int32_t seat) const;
  void raise(Instance* instance, int player, const Send& send, const Script& sender, Time chain);
  void play(std::int32_t instance, int player);  // fires triggers that are ready, then steps
  bool start_step(std::int32_t instance, int player);
  void finish_burst(std::int32_t instance, int player, std::int32_t burst, Time chain);
  void close_player(std::int32_t instance, int player);
  void close_instance(std::int32_t instance);
  Time chain_of(const Instance& instance, const Player& player, const Burst& burst) const;

  // stuck.cc
  [[noreturn]] void report_stuck() const;
  std::string waits_for(const Seat& seat, std::int32_t node) const;

  const StepStage& stage_;
  const Topology& topology_;
  Wires wires_;
  EventHeap heap_;
  Outbox outbox_{&wires_, &heap_};
  std::vector<Seat> seats_;
  std::vector<std::int32_t> missing_;  // per seat and node: what it still needs; -1 once it has begun, -2 once done
  std::vector<Time> chains_, begins_;
  std::vector<std::vector<std::int32_t>> first_after_, after_;  // per program: nodes that need a node
  std::vector<std::int32_t> first_group_;                       // per communicator
  std::vector<Instance> instances_;
  std::vector<std::vector<std::int32_t>> free_instances_;  // per shape
  std::unordered_map<std::uint64_t, std::int32_t> instance_at_, parcel_at_;
  std::vector<Parcel> parcels_;
  std::vector<std::int32_t> free_parcels_;
  std::vector<std::pair<std::int32_t, Waiting>> todo_;
  std::vector<std::int32_t> touched_;  // seats whose queue may have something to compute
  ReadyQueue ready_;                   // triggers of the player whose event it is
  std::vector<NameUse> uses_;
  std::vector<NodeSlice> slices_;
  Time now_ = 0, chain_ = 0, end_ = 0;
  std::int64_t events_ = 0, left_ = 0;
};

}  // namespace weft::netsim
