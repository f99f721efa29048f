#include "weft/schedule/dispatch.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace weft::pipeline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Worker {
  int forwards = 0, inputs = 0, weights = 0;  // done so far: micro-batches come in ascending order
  double free_s = 0;
  double link_free_s[2]{};
  std::vector<double> forward_in, backward_in;  // when it is there, as far as known
};

class Dispatcher {
 public:
  Dispatcher(const Costs& costs, const DispatchOptions& options)
      : costs_(costs), o_(options), n_(int_size(costs.stages)), workers_(num(n_)) {
    out_.num_micro_batches = o_.micro_batches;
    out_.stages.resize(num(n_));
    workers_.front().forward_in.assign(num(o_.micro_batches), 0);
  }

  // What begins first is decided first: whatever is decided later arrives later. A decision changes what its stage and
  // its neighbours can begin.
  Schedule run() {
    when_.assign(num(n_), kNever);
    for (int s = 0; s < n_; ++s) update(s);
    for (std::int64_t left = std::int64_t{3} * n_ * o_.micro_batches; left > 0; --left) {
      const int s = first_.begin()->second;
      decide(s);
      for (int other = std::max(0, s - 1); other <= std::min(n_ - 1, s + 1); ++other) update(other);
    }
    return std::move(out_);
  }

 private:
  double forward_at(int s) const {
    const Worker& w = workers_[at(s)];
    const bool room = w.forwards - w.weights < o_.memory && w.forwards - w.inputs < o_.ahead[at(s)];
    return room && w.forwards < int_size(w.forward_in) ? std::max(w.free_s, w.forward_in[at(w.forwards)]) : kNever;
  }
  double input_at(int s) const {
    const Worker& w = workers_[at(s)];
    return w.inputs < int_size(w.backward_in) ? std::max(w.free_s, w.backward_in[at(w.inputs)]) : kNever;
  }
  double weight_at(int s) const {
    const Worker& w = workers_[at(s)];
    return w.weights < w.inputs ? w.free_s : kNever;
  }
  void update(int s) {
    first_.erase({when_[at(s)], s});
    when_[at(s)] = std::min({forward_at(s), input_at(s), weight_at(s)});
    first_.insert({when_[at(s)], s});
  }

  void decide(int s) {
    const double forward = forward_at(s), input = input_at(s), weight = weight_at(s);
    const double other = std::min(forward, input), least = o_.fill * costs_.stages[at(s)].backward_weight_s;
    if (weight < kNever && other - weight >= least && other > weight) return do_weight(s);
    if (other == kNever) return do_weight(s);
    // A backward that comes within half a forward is worth waiting for.
    if (input <= forward + costs_.stages[at(s)].forward_s / 2) return do_input(s, input);
    do_forward(s, forward);
  }

  double sent(int s, bool forward, double end) {
    Worker& w = workers_[at(s)];
    const StageCost& cost = costs_.stages[at(s)];
    const double seconds = forward ? cost.send_forward_s : cost.send_backward_s;
    if (costs_.transfers == Transfers::blocking) return w.free_s = end + seconds;
    double& link = w.link_free_s[forward ? 0 : 1];
    return link = std::max(link, end) + seconds;
  }

  void do_forward(int s, double begin) {
    Worker& w = workers_[at(s)];
    out_.stages[at(s)].push_back({Work::forward, 0, w.forwards++});
    w.free_s = begin + costs_.stages[at(s)].forward_s;
    if (s + 1 == n_)
      w.backward_in.push_back(w.free_s);
    else
      workers_[at(s + 1)].forward_in.push_back(sent(s, true, w.free_s));
  }
  void do_input(int s, double begin) {
    Worker& w = workers_[at(s)];
    out_.stages[at(s)].push_back({Work::backward_input, 0, w.inputs++});
    w.free_s = begin + costs_.stages[at(s)].backward_input_s;
    if (s > 0) workers_[at(s - 1)].backward_in.push_back(sent(s, false, w.free_s));
  }
  void do_weight(int s) {
    Worker& w = workers_[at(s)];
    out_.stages[at(s)].push_back({Work::backward_weight, 0, w.weights++});
    w.free_s += costs_.stages[at(s)].backward_weight_s;
  }

  const Costs& costs_;
  const DispatchOptions& o_;
  int n_;
  std::vector<Worker> workers_;
  std::vector<double> when_;                // per stage: the earliest begin of anything
  std::set<std::pair<double, int>> first_;  // the same, in order
  Schedule out_;
};

}  // namespace

Schedule dispatch(const Costs& costs, const DispatchOptions& options) { return Dispatcher(costs, options).run(); }

}  // namespace weft::pipeline
