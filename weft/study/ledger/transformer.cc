// A transformer's block, heads and feed-forward columns split over the ranks: two products that end in an all_reduce.
#include <fmt/core.h>

#include "weft/kernel/rows/elementwise.h"
#include "weft/study/ledger/stages.h"

namespace weft {
namespace {

struct TransformerRooms {
  float *x, *h, *qkv, *attended, *middle, *gated, *y;
};

void add_attention(WorkloadBlock& block, const TransformerRooms& at) {
  const Workload& w = block.workload();
  const Width whole{w.tokens(), w.hidden};
  MeasuredPart& in = add_product(block, {.name = "ip", .x = unit_rows_of(at.x, whole, at.h)});
  add_attention_of_heads(block, in, at.qkv, at.attended);
  const std::int64_t columns = block.layer("op").k;
  if (columns % w.head_dim != 0)
    block.set_note(fmt::format("{} heads do not divide among {} ranks: each has {} columns, {} heads and a part of one",
                               w.heads, block.ranks(), columns, columns / w.head_dim));
  add_product(block, {.name = "op",
                      .x = [=] { return at.attended; },
                      .then = [=](const Result& made) { add_to(made, at.x, whole, at.middle); },
                      .space = all_reduce(block.mesh(), "tp")});
}

void add_feed_forward(WorkloadBlock& block, const TransformerRooms& at) {
  const Workload& w = block.workload();
  const Width whole{w.tokens(), w.hidden};
  const std::int64_t columns = block.layer("fc1").n, ffn = block.layer("fc2").k;
  ProductStage fc1{.name = "fc1", .x = unit_rows_of(at.middle, whole, at.h)};
  if (w.gated)
    fc1.then = [=](const Result& made) {
      gate(whole.rows, ffn, Activation::silu, made[0].values.data, columns, at.gated, ffn);
    };
  else
    fc1.activation = Activation::gelu;
  MeasuredPart& up = add_product(block, fc1);
  add_product(block, {.name = "fc2",
                      .x = [=, &up] { return at.gated != nullptr ? at.gated : up.made(); },
                      .then = [=](const Result& made) { add_to(made, at.middle, whole, at.y); },
                      .space = all_reduce(block.mesh(), "tp")});
}

}  // namespace

void add_transformer(WorkloadBlock& block) {
  const Workload& w = block.workload();
  const std::int64_t elements = w.tokens() * w.hidden;
  TransformerRooms at{};
  for (float** room : {&at.x, &at.h, &at.middle, &at.y}) *room = block.buffer(elements);
  at.qkv = block.buffer(w.tokens() * block.layer("ip").n);
  at.attended = block.buffer(w.tokens() * block.layer("op").k);
  at.gated = w.gated ? block.buffer(w.tokens() * block.layer("fc2").k) : nullptr;
  add_attention(block, at);
  add_feed_forward(block, at);
  block.set_input(at.x, elements);
  block.set_output(at.y, elements);
}

}  // namespace weft
