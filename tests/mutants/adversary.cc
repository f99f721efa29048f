#include "tests/mutants/adversary.h"

#include <algorithm>

#include <fmt/format.h>

#include "weft/base/index.h"

#include "tests/mutants/play.h"

namespace weft::mutants {

Play::Play(const Adversary::Scene& scene, std::uint64_t seed) : scene_(scene), state_(mix(seed + 1)) {
  const int n = scene.plan.num_ranks;
  for (int i = 0; i < n; ++i) pace_.rank.push_back(static_cast<int>(draw(6)));
  for (int i = 0; i < n * n; ++i) pace_.link.push_back(static_cast<int>(draw(7)));
  for (int& k : pace_.kind) k = static_cast<int>(draw(5));
  constexpr int kThreads[] = {1, 1, 2, 4, 1 << 20};
  pace_.threads = kThreads[draw(5)];
  pace_.victim_rank = static_cast<int>(draw(n));
  pace_.victim_lane = static_cast<int>(draw(std::max<std::size_t>(scene.lanes[pace_.victim_rank].size(), 1)));
  pace_.victim_what = static_cast<What>(1 + draw(3));
  for (int r = 0; r < n; ++r) {
    Rank rank;
    for (std::size_t b = 0; b < scene.shapes[r].size(); ++b)
      rank.memory.emplace_back(scene.plan.buffers[b].depth,
                               std::vector<Term>(scene.shapes[r][b][0] * scene.shapes[r][b][1], ~Term{0}));
    rank.counters.assign(scene.totals[r].size(), 0);
    for (std::size_t i = 0; i < scene.lanes[r].size(); ++i)
      if (scene.lanes[r][i].is_step) rank.steps.push_back(static_cast<int>(i));
    rank.flights.assign(scene.runs, std::vector<Flight>(scene.lanes[r].size()));
    rank.under_way.assign(scene.runs, std::vector<int>(n, 0));
    ranks_.push_back(std::move(rank));
  }
}

void Play::post(What what, int rank, int run, int lane, int item, int to) {
  const bool victim = what == pace_.victim_what && rank == pace_.victim_rank && lane == pace_.victim_lane;
  int slow = pace_.kind[static_cast<int>(what)];
  slow +=
      what == What::store || what == What::signal ? pace_.link[rank * scene_.plan.num_ranks + to] : pace_.rank[rank];
  if (draw(16) == 0) slow += 6;
  events_.push(
      {now_ + 1 + draw(Time{1} << slow) + (victim ? Time{1} << 13 : 0), order_++, what, rank, run, lane, item});
}

std::string Play::run() {
  for (int r = 0; r < scene_.plan.num_ranks; ++r) post(What::open, r, 0, 0, 0, r);
  while (!events_.empty() && wrong_.empty()) {
    const Event e = events_.top();
    events_.pop();
    now_ = e.time;
    handle(e);
  }
  for (int r = 0; r < scene_.plan.num_ranks && wrong_.empty(); ++r) {
    const Rank& rank = ranks_[r];
    if (rank.run + 1 < scene_.runs || rank.left > 0)
      wrong_ = fmt::format("rank {} is stuck in run {} with {} lanes to go", r, rank.run, rank.left);
    else
      look(r, "after everything has landed");
  }
  return wrong_;
}

void Play::handle(const Event& e) {
  switch (e.what) {
    case What::start:
      return start(e);
    case What::read:
      return read(e);
    case What::store:
      return store(e);
    case What::signal:
      return signal(e);
    case What::look:
      look(e.rank, "when the run has ended");
      if (e.run + 1 < scene_.runs) post(What::open, e.rank, e.run + 1, 0, 0, e.rank);
      return;
    case What::open:
      if (e.run > 0) look(e.rank, "before the next run opens");
      return open(e.rank);
  }
}

void Play::open(int r) {
  Rank& rank = ranks_[r];
  ++rank.run;
  rank.next_step = 0;
  rank.busy = 0;
  rank.left = int_size(scene_.lanes[r]);
  for (int i = 0; i < rank.left; ++i)
    if (!scene_.lanes[r][i].is_step) offer(r, i);
  claim(r);
  if (rank.left == 0) post(What::look, r, rank.run, 0, 0, r);
}

void Play::claim(int r) {
  Rank& rank = ranks_[r];
  while (rank.busy < pace_.threads && rank.next_step < rank.steps.size()) {
    ++rank.busy;
    offer(r, rank.steps[rank.next_step++]);
  }
}

void Play::offer(int rank, int lane) {
  if (met(rank, lane))
    post(What::start, rank, ranks_[rank].run, lane, 0, rank);
  else
    ranks_[rank].blocked.push_back(lane);
}

bool Play::met(int r, int lane) const {
  const Rank& rank = ranks_[r];
  for (const LaneWait& w : scene_.lanes[r][lane].waits)
    if (rank.counters[w.counter] < (rank.run - w.lag) * scene_.totals[r][w.counter] + w.at) return false;
  return true;
}

void Play::start(const Event& e) {
  const Lane& lane = scene_.lanes[e.rank][e.lane];
  Flight& f = flight(e.rank, e.run, e.lane);
  f.reads_left = static_cast<int>(lane.reads.size() + lane.sources.size());
  f.read.resize(f.reads_left);
  for (int i = 0; i < f.reads_left; ++i) post(What::read, e.rank, e.run, e.lane, i, e.rank);
  if (f.reads_left == 0) compute(e.rank, e.run, e.lane);
}

void Play::read(const Event& e) {
  const Lane& lane = scene_.lanes[e.rank][e.lane];
  const int first_source = int_size(lane.reads);
  const Place& p = e.item < first_source ? lane.reads[e.item] : lane.sources[e.item - first_source];
  Flight& f = flight(e.rank, e.run, e.lane);
  const bool input = scene_.plan.buffers[p.buffer].role == Role::input;
  const std::int64_t width = scene_.shapes[p.rank][p.buffer][1];
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = 0; j < p.cols; ++j)
      f.read[e.item].push_back(input ? leaf(e.run, p.rank, -1 - p.buffer, p.row + i, p.col + j)
                                     : copy_of(p, e.run)[(p.row + i) * width + p.col + j]);
  if (--f.reads_left == 0) compute(e.rank, e.run, e.lane);
}

void Play::compute(int rank, int run, int at) {
  const Lane& lane = scene_.lanes[rank][at];
  Flight& f = flight(rank, run, at);
  for (std::int64_t e = 0; lane.has_data && e < lane.box.rows * lane.box.cols; ++e) {
    const std::int64_t row = e / lane.box.cols, col = e % lane.box.cols;
    Term value = 0;
    for (std::size_t i = 0; i < lane.sources.size(); ++i) {
      const Term next = f.read[lane.reads.size() + i][e];
      value = i == 0 ? next : sum(value, next);
    }
    if (lane.is_step) {
      Term made = leaf(run, rank, lane.producer, lane.box.row + row, lane.box.col + col);
      if (!lane.reads.empty()) {
        Term x = 0;
        for (std::int64_t k = 0; k < lane.reads[0].cols; ++k) x = pair(x, f.read[0][row * lane.reads[0].cols + k]);
        made = product(run, rank, x, lane.box.col + col);
      }
      value = lane.sources.empty() ? made : sum(value, made);
    }
    f.value.push_back(lane.finish && !lane.targets.empty() ? scene_.finished(lane, value, row, col) : value);
  }
  const auto here = [&](const auto& item) { return item.rank == rank; };
  f.landed.assign(lane.targets.size(), false);
  f.home_left = static_cast<int>(std::count_if(lane.targets.begin(), lane.targets.end(), here) +
                                 std::count_if(lane.signals.begin(), lane.signals.end(), here));
  for (const Place& p : lane.targets) ++ranks_[rank].under_way[run][p.rank];
  for (const Signal& g : lane.signals) ++ranks_[rank].under_way[run][g.rank];
  const bool nothing_at_home = f.home_left == 0;
  for (std::size_t i = 0; i < lane.targets.size(); ++i)
    post(What::store, rank, run, at, static_cast<int>(i), lane.targets[i].rank);
  for (int to = 0; to < scene_.plan.num_ranks; ++to)
    if (std::none_of(lane.targets.begin(), lane.targets.end(), [&](const Place& p) { return p.rank == to; }))
      post_signals(rank, run, at, to);
  if (nothing_at_home) issued(rank, run, at);
}

void Play::post_signals(int rank, int run, int at, int to) {
  const auto& signals = scene_.lanes[rank][at].signals;
  for (std::size_t i = 0; i < signals.size(); ++i)
    if (signals[i].rank == to) post(What::signal, rank, run, at, static_cast<int>(i), to);
}

void Play::store(const Event& e) {
  const Lane& lane = scene_.lanes[e.rank][e.lane];
  const Place& p = lane.targets[e.item];
  if (overtakes(e, p.rank)) return post(e.what, e.rank, e.run, e.lane, e.item, p.rank);
  Flight& f = flight(e.rank, e.run, e.lane);
  const std::int64_t width = scene_.shapes[p.rank][p.buffer][1];
  auto& memory = copy_of(p, e.run);
  for (std::int64_t i = 0; i < p.rows; ++i)
    for (std::int64_t j = 0; j < p.cols; ++j) memory[(p.row + i) * width + p.col + j] = f.value[i * p.cols + j];
  f.landed[e.item] = true;
  bool all = true;
  for (std::size_t i = 0; i < lane.targets.size(); ++i) all &= lane.targets[i].rank != p.rank || f.landed[i];
  if (all) post_signals(e.rank, e.run, e.lane, p.rank);
  landed(e, p.rank);
}

void Play::signal(const Event& e) {
  const Signal& g = scene_.lanes[e.rank][e.lane].signals[e.item];
  if (overtakes(e, g.rank)) return post(e.what, e.rank, e.run, e.lane, e.item, g.rank);
  Rank& to = ranks_[g.rank];
  ++to.counters[g.counter];
  const auto ready =
      std::stable_partition(to.blocked.begin(), to.blocked.end(), [&](int i) { return !met(g.rank, i); });
  for (auto i = ready; i != to.blocked.end(); ++i) post(What::start, g.rank, to.run, *i, 0, g.rank);
  to.blocked.erase(ready, to.blocked.end());
  landed(e, g.rank);
}

// Where buffers have several copies, two runs may be under way between two ranks: what one sends lands before
// what the next sends. Where they have one, credits alone must keep them apart, and nothing is ordered here.
bool Play::overtakes(const Event& e, int to) const {
  if (!scene_.several_copies) return false;
  for (int run = 0; run < e.run; ++run)
    if (ranks_[e.rank].under_way[run][to] > 0) return true;
  return false;
}

void Play::landed(const Event& e, int to) {
  --ranks_[e.rank].under_way[e.run][to];
  if (to == e.rank && --flight(e.rank, e.run, e.lane).home_left == 0) issued(e.rank, e.run, e.lane);
}

void Play::issued(int r, int run, int lane) {
  Rank& rank = ranks_[r];
  --rank.left;
  if (scene_.lanes[r][lane].is_step) {
    --rank.busy;
    claim(r);
  }
  if (rank.left == 0) post(What::look, r, run, 0, 0, r);
}

void Play::look(int r, const char* when) {
  const int run = ranks_[r].run;
  for (const DueTerms& due : scene_.due[r]) {
    const Place& p = due.place;
    const auto& memory = copy_of(p, run);
    for (std::int64_t i = 0; i < p.rows; ++i)
      for (std::int64_t j = 0; j < p.cols; ++j)
        if (memory[(p.row + i) * scene_.shapes[r][p.buffer][1] + p.col + j] != due.terms[run][i * p.cols + j])
          wrong_ = fmt::format("run {} of rank {}: element ({}, {}) of {} is wrong {}", run, r, p.row + i, p.col + j,
                               scene_.plan.buffers[p.buffer].name, when);
  }
}

Adversary::Adversary(const Plan& plan) : scene_(std::make_unique<const Scene>(plan)) {}
Adversary::~Adversary() = default;

std::string Adversary::run(std::uint64_t seed) const {
  return scene_->broken.empty() ? Play(*scene_, seed).run() : scene_->broken;
}

}  // namespace weft::mutants
