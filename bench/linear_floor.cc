// What language models are made of, beside what bounds it: products with weights (n, k) beside a loop that only reads
// them (few rows) and beside weights (k, n) (many rows), attention over a cache, and what calling a pool's threads
// costs. Weights lie in huge pages and rotate through copies larger than the caches. Usage: linear_floor [THREADS]
// [bandwidth|rows|blocks|attention|pool]
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/base/pages.h"
#include "weft/base/statistics.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/attention/cached_attention.h"
#include "weft/kernel/gemm/gemm.h"
#include "weft/kernel/gemm/gemv.h"
#include "weft/kernel/gemm/matmul.h"

namespace weft::bench {
namespace {

using Clock = std::chrono::steady_clock;
typedef float Vec __attribute__((vector_size(64), aligned(4)));
volatile float g_sink;

constexpr std::int64_t kSetBytes = std::int64_t{1} << 28;  // larger than any cache

// Medians of the seconds of one call of each, in turns.
std::vector<double> medians(int rounds, const std::vector<std::function<void()>>& contestants) {
  std::vector<std::vector<double>> times(contestants.size());
  for (int round = -1; round < rounds; ++round)
    for (std::size_t c = 0; c < contestants.size(); ++c) {
      const auto start = Clock::now();
      contestants[c]();
      if (round >= 0) times[c].push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  std::vector<double> out;
  for (const auto& t : times) out.push_back(median(t));
  return out;
}

// Eight streams, the best of ten loops tried on Zen 4 with pages of 4 KB: one stream reads 27 GB/s where eight read 34.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void read_bytes(const char* data, std::int64_t bytes) {
  constexpr int kStreams = 8;
  Vec sums[kStreams] = {};
  const std::int64_t part = bytes / kStreams;
  for (std::int64_t i = 0; i + 64 <= part; i += 64)
    for (int s = 0; s < kStreams; ++s) {
      __builtin_prefetch(data + s * part + i + 2048, 0, 2);
      sums[s] += *reinterpret_cast<const Vec*>(data + s * part + i);
    }
  float total = 0;
  for (const Vec& sum : sums) total += sum[0] + sum[9];
  g_sink = total;
}

class Set {
 public:
  explicit Set(std::int64_t bytes) : bytes_(bytes), memory_(new char[num(bytes)]) {
    ask_for_huge_pages(memory_.get(), num(bytes));  // before they are touched
    for (std::int64_t i = 0; i < bytes; ++i)
      memory_[at(i)] = i % 2 == 0 ? static_cast<char>(i * 7 / 3) : 0x3c;  // small numbers
  }
  const char* data() const { return memory_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
  std::unique_ptr<char[]> memory_;
};

// The whole set once, each thread its part.
void read_all(ThreadPool& threads, const Set& set) {
  const std::int64_t share = set.bytes() / threads.size();
  threads.run([&](int t) { read_bytes(set.data() + t * share, share); });
}

void bandwidth(ThreadPool& threads) {
  const Set set(kSetBytes);
  for (const auto& [n, k] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {2048, 2048}, {8192, 2048}, {2048, 5632}, {2048, 8192}, {3072, 2048}, {256, 256}, {768, 256}})
    for (const Dtype dtype : {Dtype::bf16, Dtype::f32, Dtype::q8_0, Dtype::q6_k, Dtype::q4_k, Dtype::q4_0})
      for (const std::int64_t m : {1, 4}) {
        const std::int64_t bytes = n * row_bytes(dtype, k), copies = kSetBytes / bytes;
        std::vector<float> x(num(m * k), 0.5f), y(num(m * n));
        const auto times =
            medians(9, {[&] { read_all(threads, set); },
                        [&] {
                          for (std::int64_t c = 0; c < copies; ++c)
                            matmul(threads, m,
                                   {.n = n, .k = k, .w = set.data() + c * bytes, .dtype = dtype, .huge_pages = true},
                                   x.data(), k, y.data(), n);
                        }});
        const double read = 1e-9 * kSetBytes / times[0], made = 1e-9 * static_cast<double>(copies * bytes) / times[1];
        fmt::print("{:4} m {} n {:5} k {:5}  read {:5.1f} GB/s  product {:5.1f} GB/s  {:.3f}  {:.1f} us\n",
                   to_string(dtype), m, n, k, read, made, made / read, times[1] / static_cast<double>(copies) * 1e6);
      }
}

// Both paths and both layouts, whatever matmul would choose.
void rows(ThreadPool& threads) {
  const std::int64_t n = 2048;
  const Set set(kSetBytes / 4);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f32})
    for (const std::int64_t k : {256, 2048})
      for (const std::int64_t m : {2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64, 256}) {
        const std::int64_t bytes = n * k * size_of(dtype);
        const std::int64_t copies = set.bytes() / bytes;
        std::vector<float> x(num(m * k), 0.5f), y(num(m * n));
        std::int64_t turn = 0;
        const auto next = [&] { return set.data() + turn++ % copies * bytes; };
        const auto kernel = [&](bool transposed) {
          return GemmKernel({.tile_rows = m,
                             .tile_cols = 64,
                             .k = k,
                             .lda = k,
                             .ldb = transposed ? k : n,
                             .b_dtype = dtype,
                             .b_transposed = transposed});
        };
        const GemmKernel plain = kernel(false), turned = kernel(true);
        std::vector<char> scratch(plain.scratch_bytes());
        const auto gemm = [&](const GemmKernel& gemm_kernel, std::int64_t stride) {
          const char* w = next();
          for (std::int64_t j = 0; j < n; j += 64)
            gemm_kernel.run(m, 64, x.data(), w + j * stride * size_of(dtype), {y.data() + j, n}, scratch.data());
        };
        const auto times = medians(
            15, {[&] { gemv(n, k, next(), dtype, k, {.m = m, .x = x.data(), .ldx = k, .y = y.data(), .ldy = n}); },
                 [&] { gemm(turned, k); }, [&] { gemm(plain, 1); },
                 [&] { matmul(threads, m, {.n = n, .k = k, .w = next(), .dtype = dtype}, x.data(), k, y.data(), n); }});
        const double gf = 2e-9 * static_cast<double>(m * n * k);
        fmt::print(
            "{} k {:4} m {:3}  one thread, GF/s: gemv {:5.1f}  gemm from (n, k) {:5.1f}  from (k, n) {:5.1f}; "
            "matmul, {} threads {:5.1f}\n",
            to_string(dtype), k, m, gf / times[0], gf / times[1], gf / times[2], threads.size(), gf / times[3]);
      }
}

// Weights in blocks, many rows.
void blocks(ThreadPool& threads) {
  const std::int64_t n = 2048, k = 2048;
  const Set set(kSetBytes / 4);
  for (const Dtype dtype : {Dtype::bf16, Dtype::q8_0, Dtype::q6_k, Dtype::q4_k, Dtype::q4_0})
    for (const std::int64_t m : {1, 2, 4, 8, 16, 64, 512}) {
      const std::int64_t bytes = n * row_bytes(dtype, k), copies = set.bytes() / bytes;
      std::vector<float> x(num(m * k), 0.5f), y(num(m * n));
      std::int64_t turn = 0;
      const auto times =
          medians(9, {[&] {
                    matmul(threads, m, {.n = n, .k = k, .w = set.data() + turn++ % copies * bytes, .dtype = dtype},
                           x.data(), k, y.data(), n);
                  }});
      fmt::print("{:4} m {:3}: {:8.1f} us  {:6.1f} GF/s\n", to_string(dtype), m, times[0] * 1e6,
                 2e-9 * static_cast<double>(m * n * k) / times[0]);
    }
}

struct Setting {
  std::int64_t heads, kv_heads, head_dim, context, rows;
};

void attention(ThreadPool& threads) {
  for (const Setting& s : {Setting{32, 8, 64, 2048, 1},
                           {32, 32, 128, 2048, 1},
                           {8, 8, 32, 512, 1},
                           {32, 8, 64, 2048, 4},
                           {32, 8, 64, 2048, 2048},
                           {8, 8, 32, 512, 512},
                           {32, 32, 128, 1024, 1024}}) {
    CachedAttention attention({.heads = s.heads, .kv_heads = s.kv_heads, .head_dim = s.head_dim, .capacity = s.context},
                              threads.size());
    const std::int64_t floats = attention.cache_floats();
    const std::int64_t copies = std::max<std::int64_t>(1, kSetBytes / (floats * 8)), width = s.heads * s.head_dim;
    std::vector<float> cache(num(copies * floats * 2)), q(num(s.rows * width));
    for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = static_cast<float>(i * 37 % 101) * 0.02f - 1;
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i * 29 % 97) * 0.02f - 1;
    std::vector<float> y(q.size());
    std::int64_t turn = 0;
    const auto times =
        medians(s.rows > 8 ? 5 : 201, {[&] {
                  float* at = cache.data() + turn++ % copies * floats * 2;
                  const AttentionRows part{{at, at + floats}, s.context - s.rows, s.rows, q.data(), y.data()};
                  attention.run(threads, {&part, 1}, width, width);
                }});
    const double read = 8e-9 * static_cast<double>(floats) / times[0];
    const double keys =
        static_cast<double>(s.rows) * (static_cast<double>(s.context) - 0.5 * static_cast<double>(s.rows - 1));
    const double gf = 4e-9 * keys * static_cast<double>(width) / times[0];
    fmt::print("heads {}/{} of {:3}, context {:4}, rows {:4}: {:8.1f} us  {:5.1f} GB/s of cache  {:5.1f} GF/s\n",
               s.heads, s.kv_heads, s.head_dim, s.context, s.rows, times[0] * 1e6, read, gf);
  }
}

void pool(ThreadPool& threads) {
  constexpr int kCalls = 1000;
  for (const int gap_us : {0, 5, 20, 100}) {
    std::vector<double> times;
    for (int i = 0; i < kCalls; ++i) {
      const auto gap = Clock::now() + std::chrono::microseconds(gap_us);
      while (Clock::now() < gap) continue;
      const auto start = Clock::now();
      threads.run([](int) {});
      times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
    fmt::print("an empty call of {} threads, {} us after the last: {:.2f} us\n", threads.size(), gap_us,
               median(times) * 1e6);
  }
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 2;
  const std::string only = argc > 2 ? argv[2] : "";
  weft::ThreadPool threads(count);
  if (only.empty() || only == "pool") weft::bench::pool(threads);
  if (only.empty() || only == "bandwidth") weft::bench::bandwidth(threads);
  if (only.empty() || only == "rows") weft::bench::rows(threads);
  if (only.empty() || only == "blocks") weft::bench::blocks(threads);
  if (only.empty() || only == "attention") weft::bench::attention(threads);
}
