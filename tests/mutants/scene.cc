#include "tests/mutants/scene.h"

#include <algorithm>

#include <fmt/format.h>

namespace weft::mutants {

Term leaf(int run, int rank, int source, std::int64_t row, std::int64_t col) {
  return pair(pair(pair(pair(run, rank), static_cast<Term>(source)), static_cast<Term>(row)), static_cast<Term>(col));
}

Term product(int run, int rank, Term row_of_x, std::int64_t col) {
  return pair(pair(pair(run, rank), row_of_x), static_cast<Term>(col));
}

namespace {

constexpr Term kFinish = 0x51ab, kResidual = 0x77e1;

Place place_of(const Piece& piece, const Box& box) {
  return {piece.rank, piece.buffer, box.lo[0], box.lo[1], box.size(0), box.size(1)};
}

Term finish(const Producer& producer, Term value, std::int64_t bias_col, std::int64_t row, std::int64_t col) {
  if (!producer.has_epilogue()) return value;
  Term out = pair(pair(kFinish, value), producer.bias ? static_cast<Term>(bias_col) : 0);
  if (producer.residual) out = pair(out, pair(pair(kResidual, static_cast<Term>(row)), static_cast<Term>(col)));
  return out;
}

}  // namespace

Adversary::Scene::Scene(const Plan& plan_in) : plan(plan_in), lanes(plan.num_ranks) {
  const Expander expander(plan);
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.depth < 1) broken = fmt::format("buffer {} has no copy", buffer.name);
    if (buffer.depth > 1) several_copies = true;
  }
  if (several_copies) runs = 5;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    shapes.emplace_back();
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      const auto shape = expander.shape(static_cast<int>(b), rank);
      shapes.back().push_back({shape[0], shape[1]});
    }
    totals.emplace_back();
    for (std::int64_t c = 0; c < expander.num_counters(rank); ++c)
      totals.back().push_back(expander.counter_total(static_cast<int>(c), rank));
  }
  due.resize(plan.num_ranks);
  for (int rank = 0; rank < plan.num_ranks && broken.empty(); ++rank) {
    add_lanes(expander.program(rank));
    add_due(expander, rank);
  }
}

void Adversary::Scene::check(const Lane& lane, int rank) {
  const auto inside = [&](const Place& p) {
    const auto& shape = shapes[p.rank][p.buffer];
    return p.row >= 0 && p.col >= 0 && p.row + p.rows <= shape[0] && p.col + p.cols <= shape[1];
  };
  const auto fits = [&](const Place& p) { return p.rows == lane.box.rows && p.cols == lane.box.cols && inside(p); };
  if (!std::all_of(lane.sources.begin(), lane.sources.end(), fits) ||
      !std::all_of(lane.targets.begin(), lane.targets.end(), fits) ||
      !std::all_of(lane.reads.begin(), lane.reads.end(),
                   [&](const Place& p) { return p.rows == lane.box.rows && inside(p); }))
    broken = fmt::format("a lane of rank {} touches a box outside its buffer or of another shape", rank);
  if (lane.is_step) {
    const Producer& p = plan.producers[lane.producer];
    const std::int64_t most = lane.reads.empty() ? p.m : p.m * plan.num_ranks;
    if (lane.box.row + lane.box.rows > most || lane.box.col + lane.box.cols > p.columns(rank))
      broken = fmt::format("rank {} makes a tile that its producer has not", rank);
  }
}

void Adversary::Scene::add_lanes(const Program& program) {
  for (const Action& action : program.actions)
    for (std::int64_t i = 0; i < action.lanes && broken.empty(); ++i) {
      Lane lane;
      lane.is_step = action.kind == ActionKind::step;
      lane.finish = action.finish;
      lane.producer = action.producer;
      for (const Wait& w : program.of(action))
        lane.waits.push_back({w.counter + static_cast<int>(w.per > 0 ? i / w.per : 0), w.at, w.lag});
      for (Signal g : program.signals_of(action)) {
        g.counter += static_cast<int>(g.per > 0 ? i / g.per : 0);
        lane.signals.push_back(g);
      }
      lane.has_data = action.box.dims > 0;
      if (lane.has_data) {
        lane.box = place_of({program.rank, -1, {}}, lane_box(action.box, action.tile, i));
        for (const Piece& p : program.reads(action)) lane.reads.push_back(place_of(p, lane_rows(p.box, action, i)));
        for (const Piece& p : program.sources(action))
          lane.sources.push_back(place_of(p, lane_box(p.box, action.tile, i)));
        for (const Piece& p : program.targets(action))
          lane.targets.push_back(place_of(p, lane_box(p.box, action.tile, i)));
        if (!lane.is_step && lane.sources.empty() && !lane.targets.empty())
          broken = fmt::format("a trigger of rank {} stores what it has not read", program.rank);
        if (broken.empty()) check(lane, program.rank);
      }
      lanes[program.rank].push_back(std::move(lane));
    }
}

Term Adversary::Scene::finished(const Lane& lane, Term value, std::int64_t row, std::int64_t col) const {
  const Place& home = lane.targets[0];
  const Producer& producer = plan.producers[lane.producer >= 0 ? lane.producer : 0];
  return finish(producer, value, lane.box.col + col, home.row + row, home.col + col);
}

// A producer that reads rows from buffers reads the rows of all ranks, stacked.
Term Adversary::Scene::owed_term(const Expander::Due& d, int run, std::int64_t row, std::int64_t col) const {
  const auto input =
      std::find_if(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& b) { return b.role == Role::input; });
  Term out = 0, partial = 0;
  const int per_host = d.ranks_per_host, num_hosts = plan.num_ranks / per_host;
  for (int i = 0; i < d.contributors; ++i) {
    const int host = (d.first / per_host + i / per_host) % num_hosts, place = (d.first + i) % per_host;
    const int rank = per_host == 1 ? (d.first + i) % plan.num_ranks : host * per_host + place;
    Term next = leaf(run, rank, d.leaf, row, col);
    if (d.leaf >= 0 && input != plan.buffers.end()) {
      const Producer& p = plan.producers[d.leaf];
      Term x = 0;
      for (std::int64_t k = 0; k < p.k; ++k)
        x = pair(x, leaf(run, static_cast<int>(row / p.m), -1 - static_cast<int>(input - plan.buffers.begin()),
                         row % p.m, k));
      next = product(run, rank, x, col);
    }
    if (per_host == 1 || i / per_host == num_hosts - 1) {
      out = i == 0 ? next : sum(out, next);
      continue;
    }
    partial = i % per_host == 0 ? next : sum(partial, next);
    if (i % per_host == per_host - 1) out = i < per_host ? partial : sum(out, partial);
  }
  return out;
}

void Adversary::Scene::add_due(const Expander& expander, int rank) {
  for (const Expander::Due& d : expander.owed(rank)) {
    if (plan.buffers[d.piece.buffer].role != Role::output) continue;  // internal ones show in what is made of them
    DueTerms out{place_of(d.piece, d.piece.box), {}};
    const Place& at = out.place;
    for (int run = 0; run < runs; ++run) {
      auto& terms = out.terms.emplace_back();
      for (std::int64_t i = 0; i < at.rows; ++i)
        for (std::int64_t j = 0; j < at.cols; ++j) {
          Term term = owed_term(d, run, d.origin[0] + i, d.origin[1] + j);
          const Producer& p = plan.producers[std::max(d.leaf, 0)];
          if (d.finished) term = finish(p, term, d.origin[1] + j, at.row + i, at.col + j);
          terms.push_back(term);
        }
    }
    due[rank].push_back(std::move(out));
  }
}

}  // namespace weft::mutants
