// A block with a mixture of experts: ranks share the tokens; attention is split by heads (all_gather before it,
// reduce_scatter after) or by tokens (nothing exchanged); all_to_all takes every token to its experts and back.
//
// Routing is round robin, so that experts are evenly loaded as the workload's shapes assume: choice j of token i goes
// to expert (i * top_k + j) mod experts. The router's product is computed all the same and weighs the choices.
#include <algorithm>
#include <cmath>

#include "weft/kernel/rows/elementwise.h"
#include "weft/study/ledger/stages.h"

namespace weft {
namespace {

// The experts of this rank, and who sends how much to whom.
struct Experts {
  std::int64_t own, hidden, ffn, columns, experts, top_k, local, slots;  // slots: rows from a rank for an expert
  int ranks;
  bool gated;
  std::vector<MeasuredPart*> dispatch, up, down;
  std::vector<float*> packed, gated_rooms;
  std::vector<const float*> up_weights, down_weights;

  std::int64_t rows() const { return ranks * slots; }

  // Rows for expert e of every rank, in the order of ranks.
  void pack(std::int64_t e, const float* h) const {
    for (int to = 0; to < ranks; ++to)
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        const std::int64_t choice = slot * experts + to * local + e;
        float* row = packed[at(e)] + (to * slots + slot) * hidden;
        if (choice < own * top_k) std::copy_n(h + choice / top_k * hidden, hidden, row);
      }
  }

  const float* activated(std::size_t e) const {
    const float* made = up[e]->made();
    if (!gated) return made;
    gate(rows(), ffn, Activation::silu, made, columns, gated_rooms[e], ffn);
    return gated_rooms[e];
  }

  // out += what this rank's tokens got back, weighed by the router.
  void combine(const float* logits, float* out) const {
    for (std::int64_t choice = 0; choice < own * top_k; ++choice) {
      const std::int64_t expert = choice % experts, token = choice / top_k, slot = choice / experts;
      float all = 0;
      for (std::int64_t j = 0; j < top_k; ++j) all += std::exp(logits[token * experts + (token * top_k + j) % experts]);
      const float weight = std::exp(logits[token * experts + expert]) / all;
      const Matrix& back = down[at(expert % local)]->last_result()[0].values;
      add_scaled(hidden, weight, back.row(expert / local * slots + slot), out + token * hidden);
    }
  }
};

void run_up(Experts& x, Style style, const float* h, StageLog& log) {
  const auto make = [&](std::size_t e, const float* rows) {
    x.up[e]->run(style, {.x = rows, .w = x.up_weights[e]}, log);
  };
  for (std::int64_t e = 0; e < x.local; ++e) x.pack(e, h);
  log.did(Doing::make);
  const auto count = num(x.local);
  const bool sends = style != Style::compute && x.ranks > 1;
  if (sends)
    for (std::size_t e = 0; e < count; ++e) x.dispatch[e]->send(x.packed[e]);
  if (style == Style::sequential && sends)
    for (std::size_t e = 0; e < count; ++e) x.dispatch[e]->take();
  for (std::size_t e = 0; e < count; ++e) {
    const float* rows = sends ? x.dispatch[e]->take().data : x.packed[e];
    if (sends) log.did(Doing::exchange);
    make(e, rows);
  }
}

void run_down(Experts& x, Style style, StageLog& log) {
  const auto count = num(x.local);
  std::vector<Matrix> made(count);
  std::vector<Inputs> inputs(count);
  const bool sends = style != Style::compute && x.ranks > 1;
  for (std::size_t e = 0; e < count; ++e) {
    inputs[e] = {.x = x.activated(e), .w = x.down_weights[e]};
    if (sends && style == Style::fused) {
      x.down[e]->start_fused(inputs[e]);
    } else {
      made[e] = x.down[e]->make(inputs[e]);
      if (sends && style == Style::panels) x.down[e]->send(made[e].data);
    }
  }
  log.did(sends && style != Style::sequential ? Doing::both : Doing::make);
  if (sends && style == Style::sequential)
    for (std::size_t e = 0; e < count; ++e) x.down[e]->send(made[e].data);
  for (std::size_t e = 0; e < count; ++e) {
    if (sends && style == Style::fused)
      x.down[e]->finish_fused();
    else
      x.down[e]->keep(inputs[e], sends ? x.down[e]->take() : made[e]);
  }
  if (sends) log.did(Doing::exchange);
}

std::shared_ptr<Experts> make_experts(WorkloadBlock& block) {
  const Workload& w = block.workload();
  auto x = std::make_shared<Experts>();
  x->ranks = block.ranks();
  x->own = w.tokens() / x->ranks;
  x->hidden = w.hidden, x->ffn = w.ffn, x->columns = w.gated ? 2 * w.ffn : w.ffn;
  x->experts = w.experts, x->top_k = w.top_k, x->local = w.experts / x->ranks, x->gated = w.gated;
  x->slots = (x->own * x->top_k + x->experts - 1) / x->experts;
  const Activation activation = w.gated ? Activation::none : Activation::gelu;
  for (std::int64_t e = 0; e < x->local; ++e) {
    const Space exchange = all_to_all(block.mesh(), "tp");
    x->packed.push_back(block.buffer(x->rows() * x->hidden));
    x->gated_rooms.push_back(w.gated ? block.buffer(x->rows() * x->ffn) : nullptr);
    x->dispatch.push_back(&block.part("expert_fc1", copy({.rows = x->rows(), .cols = x->hidden}), exchange));
    const GemmOptions up{.m = x->rows(), .n = x->columns, .k = x->hidden, .activation = activation};
    x->up.push_back(&block.part("expert_fc1", gemm(up), keep()));
    x->down.push_back(&block.part("expert_fc2", gemm({.m = x->rows(), .n = x->hidden, .k = x->ffn}), exchange));
    x->down.back()->without_panels();  // an expert is a panel
    x->up_weights.push_back(block.weights(x->hidden, x->columns, x->hidden));
    x->down_weights.push_back(block.weights(x->ffn, x->hidden, x->ffn));
  }
  return x;
}

// Experts one after another, each beside the exchange of the next (fused, panels), or all exchanges first.
double predicted_up(const Experts& x, Style style, const Cluster& cluster) {
  double made = 0, sent = 0;
  for (std::size_t e = 0; e < x.up.size(); ++e) {
    const double comm = style == Style::compute ? 0 : x.dispatch[e]->predicted_s(Style::sequential, cluster);
    const double compute = x.up[e]->predicted_s(Style::compute, cluster);
    sent += comm;
    made = style == Style::sequential ? made + comm + compute : std::max(made, sent) + compute;
  }
  return made;
}

// The experts that every token goes to, if there are any.
MeasuredPart* add_shared_experts(WorkloadBlock& block, const MoeRooms& at, std::int64_t own) {
  const Workload& w = block.workload();
  if (w.shared_experts == 0) return nullptr;
  const std::int64_t ffn = w.shared_experts * w.ffn;
  MeasuredPart& up = add_product(block, {.name = "shared_fc1", .x = [=] { return at.h; }});
  float* room = w.gated ? block.buffer(own * ffn) : nullptr;
  return &add_product(block, {.name = "shared_fc2", .x = [=, &up]() -> const float* {
                                if (room == nullptr) return up.made();
                                gate(own, ffn, Activation::silu, up.made(), 2 * ffn, room, ffn);
                                return room;
                              }});
}

void add_experts(WorkloadBlock& block, const MoeRooms& at) {
  const Workload& w = block.workload();
  const Width width{w.tokens() / block.ranks(), w.hidden};
  MeasuredPart& router = add_product(block, {.name = "router", .x = unit_rows_of(at.middle, width, at.h)});
  const MeasuredPart* shared = add_shared_experts(block, at, width.rows);
  const auto x = make_experts(block);
  block.stage({"expert_fc1", [=](Style style, StageLog& log) { run_up(*x, style, at.h, log); }, x->dispatch,
               [x](Style style, const Cluster& cluster) { return predicted_up(*x, style, cluster); }});
  block.stage({"expert_fc2",
               [=, &router](Style style, StageLog& log) {
                 run_down(*x, style, log);
                 std::copy_n(at.middle, width.rows * width.cols, at.y);
                 x->combine(router.made(), at.y);
                 if (shared != nullptr) add_to(shared->last_result(), at.y, width, at.y);
                 log.did(Doing::make);
               },
               x->down});
}

}  // namespace

void add_moe(WorkloadBlock& block) {
  const Workload& w = block.workload();
  const std::int64_t own = w.tokens() / block.ranks();
  MoeRooms at{};
  for (float** room : {&at.x, &at.h, &at.middle, &at.y}) *room = block.buffer(own * w.hidden);
  add_moe_attention(block, at);
  add_experts(block, at);
  block.set_input(at.x, own * w.hidden);
  block.set_output(at.y, own * w.hidden);
}

}  // namespace weft
