// Logits. Each rank has some rows of the head; ranks tell each other as little as the question needs: a row's largest
// logit and its token, the sum of exponentials and the target's logit, or (for sampling and files) all logits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/gemm/matmul.h"
#include "weft/llm/engine/engine_state.h"
#include "weft/llm/engine/parallel_rows.h"
#include "weft/llm/model/linear_of.h"

namespace weft {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

Told look(std::span<const float> logits, std::int64_t first, std::int64_t target, bool sums) {
  Told told{.largest = kNone, .other = kNone, .target = kNone};
  if (logits.empty()) return told;
  const auto top = std::max_element(logits.begin(), logits.end());
  told.largest = told.other = *top;
  told.token = static_cast<float>(first + (top - logits.begin()));
  double sum = 0;
  if (sums)
    for (const float logit : logits) sum += std::exp(logit - told.largest);
  told.sum = static_cast<float>(sum);
  const std::int64_t at = target - first;
  if (target < first || at >= std::ssize(logits)) return told;
  told.target = logits[weft::at(at)];
  if (at == top - logits.begin()) {
    told.other = kNone;
    for (std::size_t i = 0; i < logits.size(); ++i)
      if (static_cast<std::int64_t>(i) != at) told.other = std::max(told.other, logits[i]);
  }
  return told;
}

// Ranks in order: the first of equal logits has the smallest token.
Joined join(const Told* told, std::int64_t rank_rows, int ranks, std::int64_t row) {
  Joined out{.largest = kNone, .other = kNone};
  for (int rank = 0; rank < ranks; ++rank) {
    const Told& one = told[rank * rank_rows + row];
    out.other = std::max(out.other, one.other);
    if (one.largest <= out.largest) continue;
    out.largest = one.largest;
    out.token = static_cast<int>(one.token);
  }
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const Told& one = told[rank * rank_rows + row];
    if (one.largest == kNone) continue;
    sum += one.sum * std::exp(static_cast<double>(one.largest) - out.largest);
    if (one.target != kNone) out.target = one.target;
  }
  out.log_sum = out.largest + std::log(sum);
  return out;
}

}  // namespace

// This rank's logits of some rows of the last forward.
void Engine::State::head_logits(std::span<const int> of) {
  const std::int64_t n = config().hidden;
  const Weight& head = model.head();
  for (std::int64_t i = 0; i < std::ssize(of); ++i) {
    if (of[at(i)] < 0 || of[at(i)] >= rows) bad_input("row {} of a forward of {} rows", of[at(i)], rows);
    std::copy_n(hidden.data() + of[at(i)] * n, n, picked.data() + i * n);
  }
  if (head.empty()) return;
  if (watch) watch(head, picked.data(), std::ssize(of), n);
  matmul(threads, std::ssize(of), linear_of(head, nullptr), picked.data(), head.cols, logits.data(),
         shard().vocab_width);
  finish_logits(std::ssize(of));
}

// Scaled and capped, as the model's description says.
void Engine::State::finish_logits(std::int64_t count) {
  const auto scale = static_cast<float>(config().design.logit_scale),
             cap = static_cast<float>(config().design.logit_cap);
  if (scale == 1 && cap == 0) return;
  const std::int64_t cols = shard().vocab.size();
  parallel_rows(threads, count, cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < cols; ++j) {
        float& logit = logits[at(i * shard().vocab_width + j)];
        logit *= scale;
        if (cap > 0) logit = cap * std::tanh(logit / cap);
      }
  });
}

// What all ranks know of some rows, at most head_rows of them. targets: of all rows of the forward, or empty.
void Engine::State::tell(std::span<const int> of, std::span<const int> targets, Joined* out) {
  head_logits(of);
  const auto count = std::ssize(of);
  const auto part = num(shard().vocab.size());
  parallel_rows(threads, count, shard().vocab.size(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const int target = targets.empty() ? -1 : targets[at(of[at(i)])];
      told[at(i)] =
          look({logits.data() + i * shard().vocab_width, part}, shard().vocab.begin, target, !targets.empty());
    }
  });
  const Told* all = told.data();
  std::int64_t rank_rows = head_rows;
  if (world.size() > 1) {
    Op& op = count <= few ? *tell_few : *tell_many;
    op.run({.x = reinterpret_cast<const float*>(told.data())}, {.rows = count});
    const Matrix y = op.output();
    all = reinterpret_cast<const Told*>(y.data);
    rank_rows = y.rows / world.size();
  }
  for (std::int64_t i = 0; i < count; ++i) out[i] = join(all, rank_rows, world.size(), i);
}

std::vector<float> Engine::logits(std::span<const int> rows) {
  State& s = *state_;
  const std::int64_t start = now_ns();
  const std::int64_t width = s.shard().vocab_width, vocab = s.config().vocab;
  const int ranks = s.world.size();
  const bool few = std::ssize(rows) <= s.few;
  auto& op = few ? s.gather_few : s.gather_many;
  if (op == nullptr) op = s.gather_op(few ? s.few : s.head_rows, width);
  std::vector<float> out(rows.size() * num(vocab));
  for (std::size_t at = 0; at < rows.size(); at += num(s.head_rows)) {
    const auto count = std::min(num(s.head_rows), rows.size() - at);
    s.head_logits(rows.subspan(at, count));
    const float* all = s.logits.data();
    std::int64_t rank_rows = 0;
    if (op != nullptr) {
      op->run({.x = s.logits.data()}, {.rows = static_cast<std::int64_t>(count)});
      const Matrix y = op->output();
      all = y.data;
      rank_rows = y.rows / ranks;
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const IndexRange part = s.vocab_of[weft::at(rank)];
      for (std::size_t i = 0; i < count; ++i)
        std::copy_n(all + (rank * rank_rows + static_cast<std::int64_t>(i)) * width, part.size(),
                    out.data() + static_cast<std::int64_t>(at + i) * vocab + part.begin);
    }
  }
  s.traffic.head_s += seconds_since(start);
  return out;
}

std::vector<int> Engine::greedy(std::span<const int> rows) {
  State& s = *state_;
  const std::int64_t start = now_ns();
  std::vector<int> out;
  out.reserve(rows.size());
  for (std::size_t at = 0; at < rows.size(); at += num(s.head_rows)) {
    const auto count = std::min(num(s.head_rows), rows.size() - at);
    s.tell(rows.subspan(at, count), {}, s.joined.data());
    for (std::size_t i = 0; i < count; ++i) out.push_back(s.joined[i].token);
  }
  s.traffic.head_s += seconds_since(start);
  return out;
}

std::vector<TokenScore> Engine::score(std::span<const int> targets) {
  State& s = *state_;
  const std::int64_t start = now_ns();
  if (std::ssize(targets) != s.rows)
    bad_input("{} targets for {} rows; give one a row, -1 for rows that are not asked for", targets.size(), s.rows);
  std::vector<int> asked;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] >= s.config().vocab) bad_input("target {} is none of {} tokens", targets[i], s.config().vocab);
    if (targets[i] >= 0) asked.push_back(static_cast<int>(i));
  }
  std::vector<TokenScore> out(targets.size());
  for (std::size_t at = 0; at < asked.size(); at += num(s.head_rows)) {
    const auto count = std::min(num(s.head_rows), asked.size() - at);
    const std::span<const int> rows(asked.data() + at, count);
    s.tell(rows, targets, s.joined.data());
    for (std::size_t i = 0; i < count; ++i) {
      const Joined& joined = s.joined[i];
      const auto row = num(rows[i]);
      out[row] = {joined.target - joined.log_sum, joined.target - joined.other, joined.token == targets[row]};
    }
  }
  s.traffic.head_s += seconds_since(start);
  return out;
}

}  // namespace weft
