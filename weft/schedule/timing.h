// When everything of a schedule happens, for given costs. A stage does its items in order, each as soon as what it
// needs is there (costs.h says how it gets there). One pass over the items, so 64 stages x 1024 micro-batches take some
// milliseconds; ticks_test.h has the slow twin.
#pragma once

#include <optional>
#include <vector>

#include "weft/schedule/costs.h"
#include "weft/schedule/schedule.h"

namespace weft::pipeline {

struct Span {
  double begin_s = 0, end_s = 0;
};

struct Sent {
  int from = 0, to = 0;  // stages
  WorkItem item;         // that made it
  Span sending;          // on the link, or on the sender's own time
  Span receiving;        // the same, or on the receiver's own time
};

struct Timing {
  double makespan_s = 0;
  double bubble = 0;                     // the part of the makespan, over all stages, in which nothing is computed
  std::vector<double> busy_s;            // per stage: computing
  std::vector<std::vector<Span>> items;  // per stage, as in the schedule
  std::vector<Sent> sends;               // by sender, in the order in which they are made
  int num_micro_batches = 0;
  Transfers transfers = Transfers::overlapped;

  double throughput() const { return makespan_s > 0 ? num_micro_batches / makespan_s : 0; }  // micro-batches per second
};

// Throws bad_input where the costs do not fit or the schedule is refused by check().
Timing timing(const Schedule& schedule, const Costs& costs);

// For searches, which time thousands of orders of the same items: the makespan alone, with memory kept between calls.
// The order of what one stage does with one micro-batch is taken for right.
class Timer {
 public:
  explicit Timer(Costs costs) : costs_(std::move(costs)) {}

  // None where stages wait for each other. `out`, where not null, gets items and sends.
  std::optional<double> makespan(const Schedule& schedule, Timing* out = nullptr);
  double sum_of_ends() const;  // of the last call: over stages, when each ended its last item

 private:
  struct Stage {
    int next = 0;             // item
    double end_s = 0;         // of the last item
    double sent_s = 0;        // of sending what it made, where that blocks; else its end
    double link_free_s[2]{};  // to the next stage, to the one before
    bool queued = true;
  };
  // When what an item needs begins to come and is there; begin < 0: not known yet.
  struct Arrival {
    double begin_s = -1, end_s = -1;
    int sent = -1;  // in Timing::sends
  };

  bool advance(int stage);  // as far as it can go; false: it waits
  double start(int stage, const Arrival* input);
  void send(int stage, const WorkItem& item);
  Arrival carry(int stage, bool forward);
  Arrival* input_of(int stage, const WorkItem& item);
  Arrival& arrival(bool forward, int position, int micro_batch) {
    return arrivals_[forward ? 0 : 1][num(std::int64_t{position} * schedule_->num_micro_batches + micro_batch)];
  }

  Costs costs_;
  const Schedule* schedule_ = nullptr;
  Timing* out_ = nullptr;
  std::vector<Stage> stages_;
  std::vector<Arrival> arrivals_[2];  // forward, backward: per position and micro-batch
  std::vector<int> ready_;
};

}  // namespace weft::pipeline
