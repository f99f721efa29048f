// The smaller model that a small machine runs in place of a workload; workload.h says what it keeps.
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/cluster/workload.h"

namespace weft {
namespace {

// The file's factors are short decimals, so that a product is whole to within this.
constexpr double kSlack = 1e-6;

std::int64_t times(std::int64_t value, double factor, const Workload& w, const char* what) {
  const double product = value * factor;
  const double whole = std::round(product);
  if (whole < 1 || std::abs(product - whole) > kSlack * std::max(1.0, product))
    bad_input(
        "workload \"{}\": {} ({}) times {} is {:.4g}, not a whole number; use a factor that leaves one, as {:.6g}",
        w.name, what, value, factor, product, std::max(1.0, whole) / value);
  return static_cast<std::int64_t>(whole);
}

void scale_tokens(std::int64_t tokens, Workload* w) {
  if (tokens == 0) return;
  const std::int64_t sequence = std::min(w->sequence, tokens);
  if (tokens % sequence != 0)
    bad_input("workload \"{}\": {} tokens are no whole number of sequences of {}; use a multiple", w->name, tokens,
              sequence);
  w->sequence = sequence;
  w->batch = tokens / sequence;
}

void scale_block(const Scale& scale, Workload* w) {
  const Workload full = *w;
  scale_tokens(scale.tokens, w);
  w->hidden = times(full.hidden, scale.hidden, full, "hidden");
  w->heads = times(full.heads, scale.hidden, full, "heads");
  // A group of heads shares one head of k and v: that is never less than one.
  w->kv_heads = std::max<std::int64_t>(1, std::llround(full.kv_heads * scale.hidden));
  while (w->heads % w->kv_heads != 0) --w->kv_heads;
  w->ffn = times(full.ffn, scale.ffn, full, "ffn");
  if (full.q_rank > 0) {
    w->q_rank = times(full.q_rank, scale.hidden, full, "q_rank");
    w->kv_rank = times(full.kv_rank, scale.hidden, full, "kv_rank");
  }
  if (full.kind != WorkloadKind::moe) return;
  if (scale.experts > 0) w->experts = scale.experts;
  if (scale.top_k > 0) w->top_k = scale.top_k;
  if (w->top_k > w->experts)
    bad_input("workload \"{}\": top_k {} of {} experts; give at least as many experts", w->name, w->top_k, w->experts);
}

// The dense part's widths shrink, but not what it takes, gives or shares with the tables: 13 features, 1 answer, dim.
void scale_tables(const Scale& scale, Workload* w) {
  if (scale.batch > 0) w->batch = scale.batch;
  if (scale.rows > 0)
    for (std::int64_t& rows : w->rows) rows = std::min(rows, scale.rows);
  const Workload full = *w;
  for (std::size_t i = 1; i + 1 < w->bottom.size(); ++i)
    w->bottom[i] = times(full.bottom[i], scale.hidden, full, "bottom");
  for (std::size_t i = 0; i + 1 < w->top.size(); ++i) w->top[i] = times(full.top[i], scale.hidden, full, "top");
  w->cross_rank = times(full.cross_rank, scale.hidden, full, "cross_rank");
}

}  // namespace

Workload scaled(const Workload& workload, const Scale& scale) {
  if (scale.ranks < 1) bad_input("a scale for {} ranks; use at least 1", scale.ranks);
  for (double factor : {scale.hidden, scale.ffn})
    if (!(factor > 0 && factor <= 1)) bad_input("a scale by {}; use more than 0 and at most 1", factor);
  if (std::min({scale.tokens, scale.experts, scale.top_k, scale.rows, scale.batch}) < 0)
    bad_input("a scale with a negative size; use 0 to leave one as it is");
  Workload small = workload;
  if (workload.kind == WorkloadKind::dlrm)
    scale_tables(scale, &small);
  else
    scale_block(scale, &small);
  small.degrees = {scale.ranks};
  small.scale_down = {};
  small.training = {};
  small.source = fmt::format("{} Scaled down for {} ranks: {}", workload.source, scale.ranks, scale.why);
  return small;
}

}  // namespace weft
