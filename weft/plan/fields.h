// The fields of a plan's parts, each named once. Saving, loading and renaming go by these lists, so that no field is
// written but not read, or read but not renamed.
//
// fields(v, part) calls v for every field, in the order in which it is written:
//   name, expr, exprs, box, lets, sizes, tile, number, choice, flag   values; those with a default may be left out
//   rank              whose memory or counter: an expression. own_rank: r unless said
//   buffer, counter   an index into the plan's list; in text the name there
//   producer, leaf    an index of a producer; what is owed: a producer's tiles or an input buffer (plan.h)
//   part, list        a part within this one, or a list of them
//   purpose, operands, packing   of a counter, a producer, a buffer: formats of plans differ in them
// `v` is a template parameter and the part may be const, so a field costs no more than naming it by hand.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "weft/plan/plan.h"

namespace weft {

template <typename T, typename U>
concept Like = std::same_as<std::remove_const_t<T>, U>;

template <typename V, Like<WaitRule> W>
void fields(V& v, W& w) {
  v.counter("counter", w.counter);
  v.expr("index", w.index, 0);
  v.expr("at", w.at, 1);
  v.number("lag", w.lag, 0, 0, 64);
  v.expr("per", w.per, 0);
  v.expr("each", w.each, 1);
  v.expr("when", w.when, 1);
}

template <typename V, Like<PieceRule> P>
void fields(V& v, P& p) {
  v.own_rank("rank", p.rank);
  v.buffer("buffer", p.buffer);
  v.box("box", p.box);
  v.expr("each", p.each, 1);
  v.expr("when", p.when, 1);
}

template <typename V, Like<SignalRule> G>
void fields(V& v, G& g) {
  v.rank("rank", g.rank);
  v.counter("counter", g.counter);
  v.expr("index", g.index, 0);
  v.expr("per", g.per, 0);
  v.expr("each", g.each, 1);
  v.expr("when", g.when, 1);
}

// Lets come before whatever may use them.
template <typename V, Like<Rule> R>
void fields(V& v, R& r) {
  v.name("name", r.name);
  v.choice("kind", r.kind);
  v.producer("producer", r.producer);
  v.expr("count", r.count, 1);
  v.lets("let", r.let);
  v.expr("when", r.when, 1);
  v.box("box", r.box, true);
  v.tile("tile", r.tile);
  v.list("waits", r.waits);
  v.list("reads", r.reads);
  v.list("sources", r.sources);
  v.list("targets", r.targets);
  v.list("signals", r.signals);
  v.expr("finish", r.finish, 0);
  v.choice("limit", r.limit, Limit::none);
  v.expr("limit_peer", r.limit_peer, 0);
  v.expr("order", r.order, 0);
  v.expr("order_step", r.order_step, 0);
}

template <typename V, Like<Owed> O>
void fields(V& v, O& o) {
  v.expr("count", o.count, 1);
  v.lets("let", o.let);
  v.expr("when", o.when, 1);
  v.part("piece", o.piece);
  v.exprs("origin", o.origin);
  v.leaf(o.leaf);
  v.expr("first", o.first, 0);
  v.expr("contributors", o.contributors, 1);
  v.expr("ranks_per_host", o.ranks_per_host, 1);
  v.flag("finished", o.finished);
  v.producer("epilogue", o.epilogue);
}

template <typename V, Like<Counter> C>
void fields(V& v, C& c) {
  v.name("name", c.name);
  v.purpose(c);
  v.expr("count", c.count, 1);
  v.expr("total", c.total, 1);
}

template <typename V, Like<Buffer> B>
void fields(V& v, B& b) {
  v.name("name", b.name);
  v.choice("role", b.role, Role::internal);
  v.choice("dtype", b.dtype, Dtype::f32);
  v.exprs("shape", b.shape);
  v.number("depth", b.depth, 1, 1, 64);
  v.packing(b.packing);
}

template <typename V, Like<Producer> P>
void fields(V& v, P& p) {
  v.choice("kind", p.kind);
  v.number("m", p.m);
  v.number("n", p.n);
  v.number("k", p.k, 0, 0, INT64_MAX);
  v.sizes("n_of", p.n_of);
  v.tile("tile", p.tile);
  v.operands(p);
  v.number("dim", p.dim, 0, 0, INT64_MAX);
  v.number("rows", p.rows, 0, 0, INT64_MAX);
  v.choice("pooling", p.pooling, Pooling::sum);
  v.flag("addend", p.addend);
  v.flag("bias", p.bias);
  v.flag("residual", p.residual);
  v.choice("activation", p.activation, Activation::none);
}

}  // namespace weft
