// A transformer's block, heads and feed-forward columns split over the ranks: two products that end in an all_reduce.
#include <fmt/core.h>

#include "weft/kernel/rows/elementwise.h"
#include "weft/kernel/rows/norm.h"

#include "cli/ledger/block.h"

namespace weft::cli {
namespace {

struct Rooms {
  float *x, *h, *qkv, *attended, *middle, *gated, *y;
};

void add_attention(Block& block, const Rooms& at) {
  const Workload& w = block.workload();
  const SubLayer &ip = block.layer("ip"), &op = block.layer("op");
  const Block::Width whole{w.tokens(), w.hidden};
  Part& in = block.local("ip", {.m = ip.m, .n = ip.n, .k = ip.k});
  const float* in_weights = block.weights(ip.k, ip.n, ip.k);
  block.stage({"ip",
               [=, &in](Style style, StageLog& log) {
                 norm(at.x, whole, at.h);
                 in.run(style, {.x = at.h, .w = in_weights}, log);
               },
               {&in}});

  add_attention_of_heads(block, in, at.qkv, at.attended);
  if (op.k % w.head_dim != 0)
    block.set_note(fmt::format("{} heads do not divide among {} ranks: each has {} columns, {} heads and a part of one",
                               w.heads, block.ranks(), op.k, op.k / w.head_dim));

  Part& out = block.part("op", gemm({.m = op.m, .n = op.n, .k = op.k}), all_reduce(block.mesh(), "tp"));
  const float* out_weights = block.weights(op.k, op.n, op.k * block.ranks());
  block.stage({"op",
               [=, &out](Style style, StageLog& log) {
                 add_to(out.run(style, {.x = at.attended, .w = out_weights}, log), at.x, whole, at.middle);
                 log.did(Doing::make);
               },
               {&out}});
}

void add_feed_forward(Block& block, const Rooms& at) {
  const Workload& w = block.workload();
  const SubLayer &fc1 = block.layer("fc1"), &fc2 = block.layer("fc2");
  const Block::Width whole{w.tokens(), w.hidden};
  const Activation activation = w.gated ? Activation::none : Activation::gelu;
  Part& up = block.local("fc1", {.m = fc1.m, .n = fc1.n, .k = fc1.k, .activation = activation});
  const float* up_weights = block.weights(fc1.k, fc1.n, fc1.k);
  const bool gated = w.gated;
  block.stage({"fc1",
               [=, &up](Style style, StageLog& log) {
                 norm(at.middle, whole, at.h);
                 const Result& made = up.run(style, {.x = at.h, .w = up_weights}, log);
                 if (!gated) return;
                 gate(fc1.m, fc2.k, Activation::silu, made[0].values.data, fc1.n, at.gated, fc2.k);
                 log.did(Doing::make);
               },
               {&up}});

  Part& down = block.part("fc2", gemm({.m = fc2.m, .n = fc2.n, .k = fc2.k}), all_reduce(block.mesh(), "tp"));
  const float* down_weights = block.weights(fc2.k, fc2.n, fc2.k * block.ranks());
  block.stage({"fc2",
               [=, &up, &down](Style style, StageLog& log) {
                 const float* x = gated ? at.gated : up.last_result()[0].values.data;
                 add_to(down.run(style, {.x = x, .w = down_weights}, log), at.middle, whole, at.y);
                 log.did(Doing::make);
               },
               {&down}});
}

}  // namespace

void add_transformer(Block& block) {
  const Workload& w = block.workload();
  const std::int64_t elements = w.tokens() * w.hidden;
  Rooms at{};
  for (float** room : {&at.x, &at.h, &at.middle, &at.y}) *room = block.buffer(elements);
  at.qkv = block.buffer(w.tokens() * block.layer("ip").n);
  at.attended = block.buffer(w.tokens() * block.layer("op").k);
  at.gated = w.gated ? block.buffer(w.tokens() * block.layer("fc2").k) : nullptr;
  add_attention(block, at);
  add_feed_forward(block, at);
  block.set_input(at.x, elements);
  block.set_output(at.y, elements);
}

}  // namespace weft::cli
