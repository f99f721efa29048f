#include "weft/schedule/timing.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/schedule/check.h"

namespace weft::pipeline {

// What the item waits for; null for what needs no other item's result. At the last position the turn from forward to
// backward is an arrival of its own.
Timer::Arrival* Timer::input_of(int stage, const WorkItem& item) {
  const int position = schedule_->position(stage, item.chunk);
  if (item.work == Work::forward) return position == 0 ? nullptr : &arrival(true, position, item.micro_batch);
  return is_backward(item.work) ? &arrival(false, position, item.micro_batch) : nullptr;
}

double Timer::start(int stage, const Arrival* input) {
  const Stage& s = stages_[at(stage)];
  if (input == nullptr) return s.sent_s;
  if (costs_.transfers == Transfers::overlapped) return std::max(s.end_s, input->end_s);
  const double begin = std::max(s.end_s, input->begin_s), end = begin + (input->end_s - input->begin_s);
  if (out_ != nullptr && input->sent >= 0) out_->sends[at(input->sent)].receiving = {begin, end};
  return std::max(s.sent_s, end);
}

// The transfer of what the stage has just made.
Timer::Arrival Timer::carry(int stage, bool forward) {
  const int n = schedule_->num_stages();
  Stage& s = stages_[at(stage)];
  if (n == 1) return {s.end_s, s.end_s};
  const StageCost& cost = costs_.stages[at(stage)];
  const double seconds = forward ? cost.send_forward_s : cost.send_backward_s;
  if (costs_.transfers == Transfers::blocking) {
    s.sent_s = s.end_s + seconds;
    return {s.end_s, s.sent_s};
  }
  double& free = s.link_free_s[forward || n == 2 ? 0 : 1];  // of two stages each is both neighbours of the other
  const double begin = std::max(free, s.end_s);
  free = begin + seconds;
  return {begin, free};
}

void Timer::send(int stage, const WorkItem& item) {
  const bool forward = item.work == Work::forward;
  if (!forward && !is_backward(item.work)) return;
  const int n = schedule_->num_stages(), last = schedule_->num_positions() - 1;
  const int position = schedule_->position(stage, item.chunk);
  const double end = stages_[at(stage)].end_s;
  if (forward && position == last) {
    arrival(false, last, item.micro_batch) = {end, end};
    return;
  }
  if (!forward && position == 0) return;
  const int to = forward ? position + 1 : position - 1;
  Arrival& there = arrival(forward, to, item.micro_batch);
  there = carry(stage, forward);
  if (out_ != nullptr && n > 1) {
    there.sent = int_size(out_->sends);
    const Span span{there.begin_s, there.end_s};
    out_->sends.push_back({stage, to % n, item, span, span});
  }
  Stage& receiver = stages_[at(to % n)];
  if (receiver.queued) return;
  receiver.queued = true;
  ready_.push_back(to % n);
}

bool Timer::advance(int stage) {
  const auto& items = schedule_->stages[at(stage)];
  Stage& s = stages_[at(stage)];
  for (; s.next < int_size(items); ++s.next) {
    const WorkItem& item = items[at(s.next)];
    const Arrival* input = input_of(stage, item);
    if (input != nullptr && input->begin_s < 0) return false;
    const double begin = start(stage, input);
    s.end_s = s.sent_s = begin + costs_.stages[at(stage)].of(item.work) / schedule_->num_chunks;
    if (out_ != nullptr) out_->items[at(stage)].push_back({begin, s.end_s});
    send(stage, item);
  }
  return true;
}

std::optional<double> Timer::makespan(const Schedule& schedule, Timing* out) {
  schedule_ = &schedule;
  out_ = out;
  const int n = schedule.num_stages();
  stages_.assign(num(n), {});
  for (auto& arrivals : arrivals_)
    arrivals.assign(num(std::int64_t{schedule.num_positions()} * schedule.num_micro_batches), {});
  ready_.clear();
  for (int stage = n - 1; stage >= 0; --stage) ready_.push_back(stage);
  int ended = 0;
  while (!ready_.empty()) {
    const int stage = ready_.back();
    ready_.pop_back();
    ended += advance(stage);
    stages_[at(stage)].queued = false;
  }
  if (ended != n) return {};
  double makespan = 0;
  for (const Stage& stage : stages_) makespan = std::max(makespan, stage.end_s);
  return makespan;
}

double Timer::sum_of_ends() const {
  double sum = 0;
  for (const Stage& stage : stages_) sum += stage.end_s;
  return sum;
}

Timing timing(const Schedule& schedule, const Costs& costs) {
  check_costs(costs, schedule.num_stages());
  const Verdict verdict = check(schedule);
  if (!verdict.ok()) bad_input("schedule \"{}\" cannot run: {}", schedule.name, verdict.problems.front());
  Timing out;
  out.items.resize(num(schedule.num_stages()));
  out.num_micro_batches = schedule.num_micro_batches;
  out.transfers = costs.transfers;
  out.makespan_s = Timer(costs).makespan(schedule, &out).value();
  std::stable_sort(out.sends.begin(), out.sends.end(), [](const Sent& a, const Sent& b) { return a.from < b.from; });
  double busy = 0;
  for (const auto& spans : out.items) {
    out.busy_s.push_back(0);
    for (const Span& span : spans) out.busy_s.back() += span.end_s - span.begin_s;
    busy += out.busy_s.back();
  }
  if (out.makespan_s > 0) out.bubble = std::max(0.0, 1 - busy / (out.makespan_s * schedule.num_stages()));
  return out;
}

}  // namespace weft::pipeline
