#include "weft/study/panels.h"

#include <algorithm>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/mesh/box.h"
#include "weft/study/contest.h"
#include "weft/world/world.h"

namespace weft {
namespace {

// Below this an all_reduce that is not split is one exchange of whole outputs.
constexpr std::int64_t kOneShotElements = 4096;
constexpr float kNothing = 0;

std::int64_t cut_length(const OpSpec& spec, PanelBy by) {
  return by == PanelBy::columns ? spec.producer.n : spec.producer.m;
}

std::int64_t part_of(const OpSpec& spec, int rank) {
  return cut(spec.producer.m, spec.ranks, rank + 1) - cut(spec.producer.m, spec.ranks, rank);
}

Matrix rows_of(const Matrix& y, std::int64_t begin, std::int64_t rows) {
  return {y.data + begin * y.cols, rows, y.cols};
}

}  // namespace

Route unblocking_route(SpaceKind kind, std::int64_t elements) {
  if (kind == SpaceKind::all_reduce) return elements <= kOneShotElements ? Route::one_shot : Route::two_shot;
  const auto known = routes(kind);
  return std::find(known.begin(), known.end(), Route::direct) != known.end() ? Route::direct : Route::automatic;
}

MakerOf own_maker(World& world) {
  return [&world](const Producer& producer) -> Make {
    Producer mine = producer;
    if (!mine.n_of.empty()) mine.n = mine.n_of[at(world.rank())];
    mine.n_of.clear();
    auto op = std::make_shared<Op>(world.compile(mine, keep()));
    return [op](const Inputs& inputs) {
      op->run(inputs);
      return op->output();
    };
  };
}

PanelBy panel_by(const OpSpec& spec) {
  if (spec.producer.kind == ProducerKind::gemv) return PanelBy::columns;
  if (spec.gathers) return PanelBy::rows;
  const bool owners = spec.space.kind == SpaceKind::reduce_scatter || spec.space.kind == SpaceKind::all_to_all;
  return owners ? PanelBy::owners : PanelBy::rows;
}

bool panels_fit(const OpSpec& spec, int panels) {
  if (!has_collective(spec)) return false;
  const PanelBy by = panel_by(spec);
  if (by == PanelBy::owners) return part_of(spec, spec.ranks - 1) >= panels;  // the last part is the smallest
  if (by == PanelBy::columns && spec.space.kind == SpaceKind::all_to_all && spec.space.options.stack == Stack::columns)
    return false;  // what a rank gets from a panel would lie in pieces of rows
  return cut_length(spec, by) >= panels;
}

std::vector<Stretch> panel_stretches(const OpSpec& spec, int panels, int p) {
  const PanelBy by = panel_by(spec);
  if (by != PanelBy::owners) {
    const std::int64_t length = cut_length(spec, by);
    return {{cut(length, panels, p), cut(length, panels, p + 1)}};
  }
  std::vector<Stretch> out;
  for (int owner = 0; owner < spec.ranks; ++owner) {
    const std::int64_t begin = cut(spec.producer.m, spec.ranks, owner), part = part_of(spec, owner);
    out.push_back({begin + cut(part, panels, p), begin + cut(part, panels, p + 1)});
  }
  return out;
}

Panels::Panels(World& world, const OpSpec& spec, int panels, const MakerOf& maker)
    : spec_(spec),
      by_(panel_by(spec)),
      rank_(world.rank()),
      idle_(spec.space.kind == SpaceKind::broadcast && world.rank() != spec.space.options.root) {
  steps_.reserve(num(panels));
  for (int p = 0; p < panels; ++p) add(world, p, panels, maker);
}

void Panels::add(World& world, int p, int panels, const MakerOf& maker) {
  Step& step = steps_.emplace_back();
  step.stretches = panel_stretches(spec_, panels, p);
  std::int64_t size = 0;
  for (const Stretch& stretch : step.stretches) size += stretch.size();
  step.producer = spec_.producer;
  (by_ == PanelBy::columns ? step.producer.n : step.producer.m) = size;
  step.first = steps_.size() > 1 ? steps_[steps_.size() - 2].first + steps_[steps_.size() - 2].producer.m : 0;
  if (by_ == PanelBy::columns) step.first = 0;
  OpSpec alone = spec_;
  alone.producer = step.producer;
  OpSpec collective = collective_alone(alone);
  collective.space.options.route = unblocking_route(spec_.space.kind, collective.producer.m * collective.producer.n);
  if (!spec_.gathers && SplitSum::possible(spec_.space.kind, step.producer.m, spec_.ranks))
    step.sum = std::make_unique<SplitSum>(world, spec_.space, step.producer.m, step.producer.n);
  else
    step.collective = std::make_unique<Op>(compile(world, collective));
  if (spec_.gathers) step.producer.m *= spec_.ranks;
  step.make = maker(step.producer);
}

void Panels::take_indices(Step& step, const Inputs& inputs) const {
  const std::size_t tables = inputs.tables.size();
  step.indices.resize(tables);
  step.offsets.resize(tables);
  for (std::size_t t = 0; t < tables; ++t) {
    auto& indices = step.indices[t];
    auto& offsets = step.offsets[t];
    indices.clear();
    offsets.assign(1, 0);
    for (const Stretch& stretch : step.stretches)
      for (std::int64_t b = stretch.begin; b < stretch.end; ++b) {
        indices.insert(indices.end(), inputs.indices[t] + inputs.offsets[t][b],
                       inputs.indices[t] + inputs.offsets[t][b + 1]);
        offsets.push_back(std::ssize(indices));
      }
  }
  step.index_pointers.clear();
  step.offset_pointers.clear();
  for (std::size_t t = 0; t < tables; ++t) {
    step.index_pointers.push_back(step.indices[t].data());
    step.offset_pointers.push_back(step.offsets[t].data());
  }
}

// Panel after panel, each a matrix of its own.
void Panels::take_addend(const float* addend) {
  const std::int64_t m = spec_.producer.m, n = spec_.producer.n;
  addend_.clear();
  for (Step& step : steps_) {
    step.addend_at = addend_.size();
    const bool columns = by_ == PanelBy::columns;
    for (const Stretch& part : step.stretches)
      for (std::int64_t row = columns ? 0 : part.begin; row < (columns ? m : part.end); ++row)
        addend_.insert(addend_.end(), addend + row * n + (columns ? part.begin : 0),
                       addend + row * n + (columns ? part.end : n));
  }
}

void Panels::refresh(const Inputs& inputs) {
  if (spec_.producer.kind == ProducerKind::embedding_bag) {
    for (Step& step : steps_) take_indices(step, inputs);
    return;
  }
  if (spec_.producer.addend) take_addend(inputs.addend);
  if (by_ != PanelBy::owners) return;
  const std::int64_t k = spec_.producer.k;
  x_.clear();
  for (const Step& step : steps_)
    for (const Stretch& stretch : step.stretches)
      x_.insert(x_.end(), inputs.x + stretch.begin * k, inputs.x + stretch.end * k);
}

Inputs Panels::inputs_of(const Step& step, const Inputs& inputs) const {
  Inputs out = inputs;
  const Producer& p = spec_.producer;
  if (p.addend) out.addend = addend_.data() + step.addend_at;
  if (p.kind == ProducerKind::embedding_bag) {
    out.indices = step.index_pointers;
    out.offsets = step.offset_pointers;
  } else if (by_ == PanelBy::columns) {
    const std::int64_t at = step.stretches[0].begin * p.k * size_of(p.weight);
    out.w = static_cast<const std::byte*>(inputs.w) + at;
  } else {
    out.x = (x_.empty() ? inputs.x : x_.data()) + step.first * p.k;
  }
  return out;
}

void Panels::poll(std::size_t begin, std::size_t end) {
  for (std::size_t p = begin; p < end; ++p)
    if (steps_[p].sum)
      steps_[p].sum->poll();
    else
      steps_[p].collective->ready();
}

Result Panels::run(const Inputs& inputs) {
  if (spec_.gathers) return run_gathering(inputs);
  for (std::size_t p = 0; p < steps_.size(); ++p) {
    Step& step = steps_[p];
    // A rank with nothing to make takes part all the same; what it gives is not read.
    const float* made = idle_ ? &kNothing : step.make(inputs_of(step, inputs)).data;
    if (step.sum)
      step.sum->start(made);
    else
      step.collective->run(made);
    if (p > 0 && steps_[p - 1].sum && steps_[p - 1].sum->sends_sums()) steps_[p - 1].sum->add_up();
    poll(0, p);
  }
  for (Step& step : steps_)
    if (step.sum && !step.sum->added()) step.sum->add_up();
  Result out;
  for (std::size_t p = 0; p < steps_.size(); ++p)
    place(steps_[p], p, steps_[p].sum ? steps_[p].sum->output() : steps_[p].collective->output(), &out);
  return out;
}

// All rows are sent at once, and each panel is multiplied when it is there.
Result Panels::run_gathering(const Inputs& inputs) {
  for (Step& step : steps_) step.collective->run(inputs.x + step.stretches[0].begin * spec_.producer.k);
  Result out;
  for (std::size_t p = 0; p < steps_.size(); ++p) {
    Inputs own = inputs;
    own.x = steps_[p].collective->output().data;
    const Matrix y = steps_[p].make(own);
    poll(p + 1, steps_.size());
    place(steps_[p], p, y, &out);
  }
  return out;
}

void Panels::place(const Step& step, std::size_t p, const Matrix& y, Result* out) const {
  const std::int64_t m = spec_.producer.m, begin = step.stretches[0].begin, size = step.stretches[0].size();
  const std::int64_t part = part_of(spec_, rank_), inside = cut(part, count(), static_cast<std::int64_t>(p));
  const bool stacked = spec_.space.kind == SpaceKind::all_to_all && spec_.space.options.stack == Stack::rows;
  if (by_ == PanelBy::columns) {
    out->push_back({y, 0, begin});
  } else if (by_ == PanelBy::owners && !stacked) {
    out->push_back({y, inside, 0});
  } else if (by_ == PanelBy::owners) {
    const std::int64_t rows = y.rows / spec_.ranks;
    for (int from = 0; from < spec_.ranks; ++from)
      out->push_back({rows_of(y, from * rows, rows), from * part + inside, 0});
  } else if (spec_.gathers || spec_.space.kind == SpaceKind::all_gather) {
    for (int from = 0; from < spec_.ranks; ++from) out->push_back({rows_of(y, from * size, size), from * m + begin, 0});
  } else {
    out->push_back({y, begin, 0});
  }
}

double Panels::predicted_seconds(const Cluster& cluster, const EstimateHint& hint) const {
  double made = 0, sent = 0;
  for (const Step& step : steps_) {
    Producer producer = step.producer;
    if (!producer.n_of.empty()) producer.n = *std::max_element(producer.n_of.begin(), producer.n_of.end());
    producer.n_of.clear();
    const double compute = estimate(weft::build(producer, keep(), cluster), cluster, hint).seconds;
    const double comm =
        step.sum ? step.sum->seconds(cluster) : estimate(step.collective->plan(), cluster, hint).seconds;
    if (cluster.num_hosts == 1) {
      made += compute + comm;
      sent = made;
    } else if (spec_.gathers) {
      sent += comm;
      made = std::max(made, sent) + compute;
    } else {
      made += compute;
      sent = std::max(made, sent) + comm;
    }
  }
  return std::max(made, sent);
}

}  // namespace weft
