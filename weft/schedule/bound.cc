#include "weft/schedule/bound.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

namespace weft::pipeline {
namespace {

class Bounds {
 public:
  Bounds(const Costs& costs, const BoundOptions& options)
      : costs_(costs), o_(options), n_(int_size(costs.stages)), last_(n_ * options.chunks - 1) {
    head_.assign(num(last_ + 1), 0);
    turn_ = tail_ = head_;
    for (int p = 1; p <= last_; ++p) head_[at(p)] = head_[at(p - 1)] + forward(p - 1) + send_forward(p - 1);
    turn_[at(last_)] = head_[at(last_)] + forward(last_) + again(last_);
    for (int p = last_ - 1; p >= 0; --p) turn_[at(p)] = turn_[at(p + 1)] + input(p + 1) + send_backward(p + 1);
    // Past p the gradient goes to the front; at each position on its way the weights' part may be what ends last.
    tail_[0] = weight(0);
    for (int p = 1; p <= last_; ++p)
      tail_[at(p)] = std::max(weight(p), send_backward(p) + input(p - 1) + tail_[at(p - 1)]);
  }

  Bound best() {
    for (int s = 0; s < n_; ++s) {
      add_work(s);
      add_memory(s);
      add_refill(s);
      if (n_ > 1) add_links(s);
    }
    return best_;
  }

 private:
  const StageCost& cost(int position) const { return costs_.stages[at(position % n_)]; }
  double forward(int p) const { return cost(p).forward_s / o_.chunks; }
  double input(int p) const { return cost(p).backward_input_s / o_.chunks; }
  double weight(int p) const { return cost(p).backward_weight_s / o_.chunks; }
  double again(int p) const { return o_.recompute ? cost(p).recompute_s / o_.chunks : 0; }
  double send_forward(int p) const { return n_ > 1 && p < last_ ? cost(p).send_forward_s : 0; }
  double send_backward(int p) const { return n_ > 1 && p > 0 ? cost(p).send_backward_s : 0; }
  bool blocking() const { return costs_.transfers == Transfers::blocking; }
  int last_of(int stage) const { return last_ - (n_ - 1 - stage); }

  void add(double seconds, const char* what, int stage) {
    if (seconds > best_.seconds) best_ = {seconds, fmt::format("{} of stage {}", what, stage)};
  }

  // Forwards of chunks that a stage can hold, and what one takes; what is done before the first backward at most.
  double held() const { return (o_.memory > 0 ? std::min(o_.memory, o_.micro_batches) : o_.micro_batches) * o_.chunks; }
  double one_forward(int s) const { return forward(s) + again(s) + (blocking() ? cost(s).send_forward_s : 0); }
  double before_turn(int s) const { return std::min(held() * one_forward(s), turn_[at(last_of(s))] - head_[at(s)]); }

  void add_work(int s) {
    const double m = o_.micro_batches;
    double forwards = 0, inputs = 0, sent = 0;
    for (int p = s; p <= last_; p += n_) {
      forwards += m * (forward(p) + again(p) + (blocking() ? send_forward(p) : 0));
      inputs += m * input(p);
      if (blocking()) sent += m * send_backward(p);
    }
    const double rest = turn_[at(last_of(s))] + forwards + inputs - before_turn(s);
    add(rest + sent + m * cost(s).backward_weight_s, "work", s);
    // The gradient that is sent last may be a part of tail.
    add(rest + (m - 1) / m * sent + tail_[at(s)], "drain", s);
  }

  // From the begin of a forward at p to the end of its backward input.
  double round_trip(int p) const { return turn_[at(p)] - head_[at(p)] + input(p); }

  void add_memory(int s) {
    if (o_.memory <= 0) return;
    if (o_.chunks == 1) {
      const int turns = (o_.micro_batches + o_.memory - 1) / o_.memory;
      add(head_[at(s)] + (turns - 1) * (round_trip(s) + weight(s)) + round_trip(s) + tail_[at(s)], "memory", s);
      return;
    }
    double held = 0;
    for (int p = s; p <= last_; p += n_) held += o_.micro_batches * (round_trip(p) + weight(p));
    add(head_[at(s)] + held / (o_.memory * o_.chunks), "memory", s);
  }

  // When the last forward begins, all others are done, and all but what memory holds are released.
  void add_refill(int s) {
    const double all = o_.micro_batches * o_.chunks, released = all - held();
    if (released <= 0) return;
    double after = 1e300;
    for (int p = s; p <= last_; p += n_) after = std::min(after, round_trip(p) + tail_[at(p)]);
    double there = forward(s), back = again(s) + input(s) + weight(s);
    if (blocking() && s + 1 < n_) there += cost(s).send_forward_s;  // chunks of the first and last stage send less
    if (blocking() && s > 0) back += cost(s).send_backward_s;
    add(turn_[at(last_of(s))] + (all - 1) * there + released * back - before_turn(s) + after, "refill", s);
  }

  void add_links(int s) {
    double forwards = 0, backwards = 0, after_forward = 1e300, after_backward = 1e300;
    for (int p = s; p <= last_; p += n_) {
      forwards += o_.micro_batches * send_forward(p);
      backwards += o_.micro_batches * send_backward(p);
      if (p < last_) after_forward = std::min(after_forward, round_trip(p + 1) + tail_[at(p + 1)]);
      if (p > 0) after_backward = std::min(after_backward, input(p - 1) + tail_[at(p - 1)]);
    }
    if (forwards > 0) add(head_[at(s)] + forward(s) + forwards + after_forward, "forward link", s);
    const int p = last_of(s);
    if (backwards > 0) add(turn_[at(p)] + input(p) + backwards + after_backward, "backward link", s);
  }

  const Costs& costs_;
  const BoundOptions& o_;
  int n_, last_;
  std::vector<double> head_, turn_, tail_;  // per position
  Bound best_;
};

}  // namespace

Bound lower_bound(const Costs& costs, const BoundOptions& options) {
  check_sizes(int_size(costs.stages), options.micro_batches, options.chunks);
  check_costs(costs, int_size(costs.stages));
  return Bounds(costs, options).best();
}

}  // namespace weft::pipeline
