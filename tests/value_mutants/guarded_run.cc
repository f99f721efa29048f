#include "tests/value_mutants/guarded_run.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/exec/cpu/executor.h"
#include "weft/exec/ref/ref.h"
#include "weft/transport/local/threads.h"

#include "tests/mutants/bases.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) ((void)(begin), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) ((void)(begin), (void)(bytes))
#endif

namespace weft::mutants {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 22;
constexpr std::size_t kFence = 256;
constexpr std::byte kUntouched{0xa5};
constexpr int kRuns = 4;

std::int64_t elements_of(const BufferLayout& b) {
  if (b.block_rows > 0) return ceil_div(b.shape[0], b.block_rows) * b.block_elements;
  std::int64_t out = 1;
  for (int d = 0; d < b.dims; ++d) out *= b.shape[d];
  return out;
}

// One rank's segment, with fences. Lays its buffers out anew.
class FencedSegment {
 public:
  FencedSegment(const Plan& plan, const Expander& expander, int rank) : layout_(layout_of(plan, expander, rank)) {
    std::size_t at = 0;
    for (BufferLayout& b : layout_.buffers) {
      if (b.role == Role::input) continue;
      const auto used = num(row_bytes(b.dtype, elements_of(b)));
      b.copy_bytes = (used + kFence + 63) / 64 * 64;
      b.offset = at;
      for (int copy = 0; copy < b.depth; ++copy, at += b.copy_bytes) add_fence(at + used, at + b.copy_bytes);
    }
    layout_.counters = at;
    const std::size_t end = at + num(layout_.num_counters) * sizeof(std::uint32_t);
    layout_.bytes = (end + kFence + 63) / 64 * 64;
    add_fence(end, layout_.bytes);
    memory_ = {static_cast<std::byte*>(std::aligned_alloc(64, layout_.bytes)), std::free};
    std::memset(memory_.get(), 0, layout_.bytes);
    for (const auto& [begin, stop] : fences_) {
      std::memset(memory_.get() + begin, static_cast<int>(kUntouched), stop - begin);
      ASAN_POISON_MEMORY_REGION(memory_.get() + begin, stop - begin);
    }
  }
  ~FencedSegment() { ASAN_UNPOISON_MEMORY_REGION(memory_.get(), layout_.bytes); }
  FencedSegment(const FencedSegment&) = delete;
  FencedSegment& operator=(const FencedSegment&) = delete;

  const Layout& layout() const { return layout_; }
  std::byte* base() const { return memory_.get(); }
  bool is_intact() const {
    ASAN_UNPOISON_MEMORY_REGION(memory_.get(), layout_.bytes);
    return std::all_of(fences_.begin(), fences_.end(), [&](const auto& fence) {
      return std::all_of(base() + fence.first, base() + fence.second, [](std::byte b) { return b == kUntouched; });
    });
  }

 private:
  void add_fence(std::size_t begin, std::size_t end) { fences_.emplace_back(begin, end); }

  Layout layout_;
  std::vector<std::pair<std::size_t, std::size_t>> fences_;
  std::unique_ptr<std::byte[], void (*)(void*)> memory_{nullptr, nullptr};
};

// Inputs of every rank for one run. Products are of small whole numbers, so that no order of additions within one
// changes a bit; what is only copied and summed between ranks is not.
class ExactInputs {
 public:
  ExactInputs(const Plan& plan, const Expander& expander, std::uint64_t seed) : random_(seed) {
    for (int rank = 0; rank < plan.num_ranks; ++rank) {
      Bindings b;
      for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
        const std::vector<std::int64_t> shape = expander.shape(static_cast<int>(i), rank);
        std::int64_t elements = 1;
        for (const std::int64_t size : shape) elements *= size;
        if (plan.buffers[i].name == "y") output_ = elements;
        b.buffers.push_back(plan.buffers[i].role == Role::input ? typed(elements, plan.buffers[i].dtype) : nullptr);
      }
      for (const Producer& p : plan.producers) b.producers.push_back(inputs(p, rank));
      bindings.push_back(std::move(b));
    }
  }
  std::vector<Bindings> bindings;

 private:
  Inputs inputs(const Producer& p, int rank) {
    Inputs in;
    const std::int64_t n = p.columns(rank);
    if (p.kind == ProducerKind::embedding_bag) {
      bags(p, n / p.dim, &in);
    } else {
      in.x = whole(p.m * (p.has_w() ? p.k : n), !p.has_w());
      if (p.has_w()) in.w = typed(p.k * n, p.weight);
    }
    if (p.addend) in.addend = whole(p.m * n);
    if (p.bias) in.bias = whole(n);
    if (p.residual) in.residual = whole(output_);
    return in;
  }
  void bags(const Producer& p, std::int64_t tables, Inputs* in) {
    auto& values = pointers_.emplace_back();
    auto& indices = index_pointers_.emplace_back();
    auto& offsets = index_pointers_.emplace_back();
    for (std::int64_t t = 0; t < tables; ++t) {
      values.push_back(whole(p.rows * p.dim));
      auto& begins = integers_.emplace_back(1, 0);
      auto& picked = integers_.emplace_back();
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t bag = between(random_, 0, 3); bag > 0; --bag)
          picked.push_back(between(random_, 0, p.rows - 1));
        begins.push_back(std::ssize(picked));
      }
      offsets.push_back(begins.data());
      indices.push_back(picked.data());
    }
    in->tables = values, in->indices = indices, in->offsets = offsets;
  }
  const float* whole(std::int64_t count, bool any = false) {
    auto& out = floats_.emplace_back(num(count));
    for (float& value : out)
      value = any ? std::uniform_real_distribution<float>(-1.0f, 1.0f)(random_)
                  : static_cast<float>(between(random_, 1, 4) * (one_in(random_, 2) ? 1 : -1));
    return out.data();
  }
  const void* typed(std::int64_t count, Dtype dtype) {
    if (dtype == Dtype::f32) return whole(count);
    auto& out = bytes_.emplace_back(num(row_bytes(dtype, count)));
    for (std::size_t i = 0; i < out.size(); ++i)  // bf16: small whole numbers
      out[i] = dtype == Dtype::bf16 ? std::byte(i % 2 == 0 ? 0x80 : 0x3f + static_cast<int>(random_() % 2))
                                    : std::byte(random_() % 100);
    return out.data();
  }

  Random random_;
  std::int64_t output_ = 0;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::byte>> bytes_;
  std::deque<std::vector<std::int64_t>> integers_;
  std::deque<std::vector<const float*>> pointers_;
  std::deque<std::vector<const std::int64_t*>> index_pointers_;
};

// Fewer rows: of the output, or from and for each peer, the same numbers on every rank.
class FewerRows {
 public:
  FewerRows(const Plan& plan, std::uint64_t seed) : num_ranks_(num(plan.num_ranks)) {
    Random random(seed);
    std::int64_t most = 4;
    for (const Producer& p : plan.producers) most = std::max(most, std::min<std::int64_t>(p.m, 64));
    rows_ = between(random, 0, most);
    for (int rank = 0; rank < plan.num_ranks; ++rank) peers_.push_back(between(random, 0, most));
  }
  std::int64_t rows() const { return rows_; }
  std::vector<Counts> of_output() const { return std::vector<Counts>(num_ranks_, {rows_, {}}); }
  std::vector<Counts> of_peers() const { return std::vector<Counts>(num_ranks_, {-1, peers_}); }

 private:
  std::size_t num_ranks_;
  std::int64_t rows_ = -1;
  std::vector<std::int64_t> peers_;
};

using Values = std::vector<std::vector<std::uint32_t>>;  // bits of every output buffer of every rank

std::uint32_t bits_at(const std::byte* base, const BufferLayout& layout, const std::array<std::int64_t, kMaxDims>& at) {
  const std::byte* from = base + row_bytes(layout.dtype, layout.element(at));
  std::uint32_t bits = 0;
  if (layout.dtype == Dtype::bf16) {
    std::uint16_t half = 0;
    std::memcpy(&half, from, 2);
    return std::uint32_t{half} << 16;
  }
  std::memcpy(&bits, from, std::min<std::size_t>(size_of(layout.dtype), 4));
  return bits;
}

std::vector<std::uint32_t> bits_of(const std::byte* base, const BufferLayout& layout) {
  std::vector<std::uint32_t> out;
  std::int64_t elements = 1;
  for (int d = 0; d < layout.dims; ++d) elements *= layout.shape[d];
  for (std::int64_t i = 0; i < elements; ++i) {
    std::array<std::int64_t, kMaxDims> at{};
    std::int64_t rest = i;
    for (int d = layout.dims - 1; d >= 0; --d) at[d] = rest % layout.shape[d], rest /= layout.shape[d];
    out.push_back(bits_at(base, layout, at));
  }
  return out;
}

bool is_compared(const Buffer& b) {
  return b.role == Role::output && (b.dtype == Dtype::f32 || b.dtype == Dtype::bf16);
}

struct Scene {
  const Plan& plan;
  const std::vector<std::vector<Bindings>>& bindings;  // [run][rank]
  const std::vector<std::vector<Counts>>& counts;      // [run][rank]
};

// [run]
std::vector<Values> on_reference(const Scene& scene) {
  RefExecutor executor(scene.plan);
  std::vector<Values> out;
  for (std::size_t run = 0; run < scene.bindings.size(); ++run) {
    executor.run(scene.bindings[run], scene.counts[run]);
    Values& values = out.emplace_back();
    for (int rank = 0; rank < scene.plan.num_ranks; ++rank)
      for (std::size_t b = 0; b < scene.plan.buffers.size(); ++b) {
        if (!is_compared(scene.plan.buffers[b])) continue;
        const auto& floats = executor.buffer(rank, static_cast<int>(b));
        auto& bits = values.emplace_back(floats.size());
        std::memcpy(bits.data(), floats.data(), floats.size() * sizeof(float));
      }
  }
  return out;
}

std::vector<Values> on_cpu(const Scene& scene) {
  const Plan& plan = scene.plan;
  const Expander expander(plan);
  std::deque<FencedSegment> segments;
  for (int rank = 0; rank < plan.num_ranks; ++rank) segments.emplace_back(plan, expander, rank);
  std::vector<std::vector<Values>> found(num(plan.num_ranks));  // [rank][run]
  run_thread_ranks(plan.num_ranks, [&](Transport& transport) {
    const int me = transport.rank();
    Memory memory;
    for (int rank = 0; rank < plan.num_ranks; ++rank) {
      memory.layouts.push_back(segments[at(rank)].layout());
      memory.base.push_back(segments[at(rank)].base());
      memory.bells.push_back(&transport.bell(rank));
      memory.world_rank.push_back(rank);
    }
    ThreadPool pool(1);
    CpuOptions options;
    options.patience = {std::chrono::seconds(20), std::chrono::seconds(20), std::chrono::nanoseconds(0), false};
    CpuExecutor executor(plan, me, memory, transport, pool, options);
    for (std::size_t run = 0; run < scene.bindings.size(); ++run) {
      executor.start(scene.bindings[run][at(me)], scene.counts[run].empty() ? Counts{} : scene.counts[run][at(me)]);
      executor.finish();
      Values& values = found[at(me)].emplace_back();
      for (std::size_t b = 0; b < plan.buffers.size(); ++b)
        if (is_compared(plan.buffers[b]))
          values.push_back(bits_of(executor.buffer(static_cast<int>(b)), executor.layout(static_cast<int>(b))));
    }
    transport.barrier();  // nobody's memory goes while others may write there
  });
  for (const FencedSegment& segment : segments)
    if (!segment.is_intact()) fail(Code::internal, "bytes beyond a buffer were written");
  std::vector<Values> out(scene.bindings.size());
  for (std::size_t run = 0; run < out.size(); ++run)
    for (auto& of_rank : found) out[run].insert(out[run].end(), of_rank[run].begin(), of_rank[run].end());
  return out;
}

// Elements that the original, given fewer rows, makes as it makes them given all: the plan owes those.
std::string misses(const Values& full, const Values& fewer, const Values& got, const char* what) {
  if (got.size() != full.size()) return {};
  for (std::size_t i = 0; i < full.size(); ++i)
    for (std::size_t e = 0; e < full[i].size() && e < got[i].size(); ++e)
      if (full[i][e] != 0 && full[i][e] == fewer[i][e] && got[i][e] != full[i][e])  // 0 is what memory begins with
        return fmt::format("with fewer rows {}, element {} of output {} is not what the original makes", what, e, i);
  return {};
}

// Changes what is owed beyond that row of the output, so that nothing there is compared.
void forget_rows_from(const Plan& plan, std::int64_t row, Values* values) {
  const Expander expander(plan);
  std::size_t at_values = 0;
  for (int rank = 0; rank < plan.num_ranks; ++rank)
    for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
      if (!is_compared(plan.buffers[b])) continue;
      auto& bits = (*values)[at_values++];
      std::vector<bool> counts(bits.size());
      const std::vector<std::int64_t> shape = expander.shape(static_cast<int>(b), rank);
      const std::int64_t width = shape.size() > 1 ? std::ssize(bits) / std::max<std::int64_t>(shape[0], 1) : 1;
      for (const Expander::Due& due : expander.owed(rank))
        for (std::int64_t i = due.piece.box.lo[0]; due.piece.buffer == static_cast<int>(b) && i < due.piece.box.hi[0];
             ++i)
          for (std::int64_t e = i * width; e < (i + 1) * width; ++e)
            if (due.origin[0] + i - due.piece.box.lo[0] < row) counts[at(e)] = true;
      for (std::size_t e = 0; e < bits.size(); ++e)
        if (!counts[e]) bits[e] = ~bits[e];
    }
}

std::string breaks_promise(const Plan& plan, const Plan& original, const std::vector<Bindings>& bindings,
                           const FewerRows& fewer) {
  const std::vector<std::vector<Bindings>> once{bindings};
  const auto made = [&](const Plan& which, std::vector<Counts> counts, bool by_cpu) {
    const std::vector<std::vector<Counts>> all{std::move(counts)};
    return by_cpu ? on_cpu({which, once, all})[0] : on_reference({which, once, all})[0];
  };
  const Values full = made(original, {}, false);
  Values less = made(original, fewer.of_output(), false);
  forget_rows_from(original, fewer.rows(), &less);
  if (std::string wrong = misses(full, less, made(plan, fewer.of_output(), true), "of the output"); !wrong.empty())
    return wrong;
  const bool counts_peers = std::any_of(original.rules.begin(), original.rules.end(),
                                        [](const Rule& rule) { return rule.limit == Limit::peer; });
  if (!counts_peers) return {};  // nothing says what rows of peers would mean
  return misses(full, made(original, fewer.of_peers(), false), made(plan, fewer.of_peers(), true), "of peers");
}

}  // namespace

bool fits_in_a_test(const Plan& plan) {
  const Expander expander(plan);
  std::int64_t bytes = 0;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    const Layout layout = layout_of(plan, expander, rank);
    for (const BufferLayout& b : layout.buffers)
      if (b.copy_bytes > num(kMostBytes) || (bytes += static_cast<std::int64_t>(b.copy_bytes)) > kMostBytes)
        return false;
    if (layout.num_counters * 4 > kMostBytes) return false;
    for (const Producer& p : plan.producers) {
      for (const std::int64_t size : {p.m, p.k, p.columns(rank), p.rows, p.dim})
        if (size > 4096) return false;
    }
  }
  return true;
}

std::string differs_from_reference(const Plan& plan, const Plan* original, std::uint64_t seed) {
  const Expander expander(plan);
  std::deque<ExactInputs> inputs;
  std::vector<std::vector<Bindings>> bindings;
  const FewerRows fewer(plan, seed);
  std::vector<std::vector<Counts>> counts;
  for (int run = 0; run < kRuns; ++run) {
    bindings.push_back(inputs.emplace_back(plan, expander, seed + num(run)).bindings);
    counts.push_back(run == 1 ? fewer.of_output() : run == 2 ? fewer.of_peers() : std::vector<Counts>());
  }
  try {
    const std::vector<Values> expected = on_reference({plan, bindings, counts}), got = on_cpu({plan, bindings, counts});
    for (int run = 0; run < kRuns; ++run)
      if (expected[at(run)] != got[at(run)]) return fmt::format("other bits than the reference in run {}", run);
    return original == nullptr ? "" : breaks_promise(plan, *original, bindings[0], fewer);
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace weft::mutants
