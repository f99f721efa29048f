// The CUDA executor's figures (docs/results/h200.md), on one GPU that 4 ranks share:
//   cuda_gemm gemm    our gemm beside cuBLASLt, one rank on all multiprocessors
//   cuda_gemm rs      gemm + reduce_scatter on link hbm: fused, and sequential
//   cuda_gemm paced   the same on paced links, communication : compute 0.5, 1 and 2
// Then, if given: how many blocks, and which k alone.
// Under a power limit a GPU's clock depends on what ran before. So everything is timed in two ways, and only equal ways
// are compared: "sustained", in blocks of one kind, which alternate and warm up first; and "after a pause" of 3 ms, one
// run at a time, at the clock of a cool GPU. Medians; "A/A" is the first contender again. Results are checked against
// float64 at random places before anything is timed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/collective/draft.h"
#include "weft/exec/cuda/executor.h"
#include "weft/exec/cuda/pull.h"
#include "weft/study/device/cublaslt.h"

namespace weft {
namespace {

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> us = {};    // sustained: per run of a block
  std::vector<double> cold = {};  // one run after a pause

  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }
  double median() const { return median(us); }
  double median_cold() const { return median(cold); }
};

void contest(std::vector<Contender>* contenders, int blocks, double block_us) {
  DeviceTimer timer;
  const auto timed = [&](Contender& c, int runs) {
    timer.begin();
    for (int i = 0; i < runs; ++i) c.run();
    return timer.end_us() / runs;
  };
  for (int block = 0; block < blocks; ++block)
    for (Contender& c : *contenders) {
      const double once = timed(c, 3);
      const int runs = std::clamp(static_cast<int>(block_us / once), 4, 400);
      timed(c, runs / 3 + 1);
      c.us.push_back(timed(c, runs));
    }
  for (int round = 0; round < 5 * blocks; ++round)
    for (Contender& c : *contenders) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      c.cold.push_back(timed(c, 1));
    }
}

struct Shape {
  std::int64_t m, n, k;
};

// Random operands of all ranks, on the device.
struct Inputs4 {
  std::vector<DeviceMemory> x, w;
  std::vector<CudaOperands> operands;

  Inputs4(const Shape& s, int ranks) {
    for (int r = 0; r < ranks; ++r) {
      x.emplace_back(s.m * s.k * 2);
      w.emplace_back(s.n * s.k * 2);
      fill_random(x.back(), 100 + static_cast<std::uint32_t>(r), device_queue());
      fill_random(w.back(), 200 + static_cast<std::uint32_t>(r), device_queue());
      operands.push_back({x.back().data(), w.back().data()});
    }
  }
};

// Element (row, col) of x * w, w (n, k), in float64.
double product_at(const Inputs4& in, const Shape& s, int rank, std::int64_t row, std::int64_t col) {
  const auto x = from_device<bf16>(in.x[at(rank)].data() + row * s.k * 2, num(s.k));
  const auto w = from_device<bf16>(in.w[at(rank)].data() + col * s.k * 2, num(s.k));
  double sum = 0;
  for (std::int64_t i = 0; i < s.k; ++i) sum += double{to_float(x[at(i)])} * to_float(w[at(i)]);
  return sum;
}

// ||found - sum over ranks|| / ||sum|| at random places of y, of which `rank` keeps rows from `first` on.
double error_at(const std::vector<int>& ranks, const Inputs4& in, const Shape& s, const void* y, std::int64_t first,
                std::int64_t rows) {
  std::mt19937_64 random(7);
  double wrong = 0, all = 0;
  for (int i = 0; i < 200; ++i) {
    const auto row = static_cast<std::int64_t>(random() % num(rows)),
               col = static_cast<std::int64_t>(random() % num(s.n));
    double expected = 0;
    for (const int r : ranks) expected += product_at(in, s, r, first + row, col);
    bf16 found;
    download(static_cast<const std::byte*>(y) + (row * s.n + col) * 2, &found, 2);
    const double difference = to_float(found) - expected;
    wrong += std::isnan(difference) ? INFINITY : difference * difference;
    all += expected * expected;
  }
  return std::sqrt(wrong / all);
}

void require_right(const char* what, double error) {
  if (!(error < 0.01)) fail(Code::internal, "{} is wrong: error {}", what, error);
  std::printf("  checked: %-40s error %.1e\n", what, error);
}

Producer producer_of(const Shape& s, WeightLayout layout) {
  return gemm({.m = s.m,
               .n = s.n,
               .k = s.k,
               .weight = Dtype::bf16,
               .tile = {kCudaTileRows, kCudaTileCols},
               .x = Dtype::bf16,
               .y = Dtype::bf16,
               .layout = layout});
}

Plan scatter_plan(const Shape& s, int ranks, Route route) {
  SpaceOptions options;
  options.route = route;
  options.wire = Dtype::bf16;
  return build(producer_of(s, WeightLayout::nk), reduce_scatter(Mesh({{"tp", ranks}}), "tp", options));
}

Plan kept_plan(const Shape& s, int ranks, WeightLayout layout = WeightLayout::nk) {
  return build_keep(validated(producer_of(s, layout), ranks), ranks);
}

void print(const std::vector<Contender>& contenders, double flops) {
  for (const Contender& c : contenders)
    std::printf("  %-40s sustained %8.1f us %6.1f TFLOP/s x%.3f   after a pause %8.1f us x%.3f\n", c.name.c_str(),
                c.median(), flops / c.median() / 1e6, c.median() / contenders[0].median(), c.median_cold(),
                c.median_cold() / contenders[0].median_cold());
}

void bench_gemm(const Shape& s, int blocks) {
  std::printf("gemm %ld x %ld x %ld, one rank\n", s.m, s.n, s.k);
  Inputs4 in(s, 1);
  DeviceMemory y(s.m * s.n * 2);
  CudaExecutor nk(kept_plan(s, 1), {}), kn(kept_plan(s, 1, WeightLayout::kn), {});
  nk.start(in.operands);
  nk.finish();
  require_right("our gemm", error_at({0}, in, s, nk.output(0), 0, s.m));
  CublasLtGemm lt_nk(s.m, s.n, s.k, WeightLayout::nk), lt_kn(s.m, s.n, s.k, WeightLayout::kn);
  const void *x = in.x[0].data(), *w = in.w[0].data();
  const int ran = lt_nk.tune(x, w, y.data());
  lt_kn.tune(x, w, y.data());
  lt_nk.run(x, w, y.data());
  require_right("cuBLASLt", error_at({0}, in, s, y.data(), 0, s.m));
  std::vector<Contender> c = {
      {"cuBLASLt, w (n, k), best of " + std::to_string(ran), [&] { lt_nk.run(x, w, y.data()); }},
      {"ours, w (n, k)", [&] { nk.start(in.operands); }},
      {"cuBLASLt, w (k, n)", [&] { lt_kn.run(x, w, y.data()); }},
      {"ours, w (k, n)", [&] { kn.start(in.operands); }},
      {"cuBLASLt, w (n, k), A/A", [&] { lt_nk.run(x, w, y.data()); }}};
  contest(&c, blocks, 60000);
  const double flops = 2.0 * double(s.m) * double(s.n) * double(s.k);
  print(c, flops);
  std::printf("  -> of cuBLASLt: sustained nk %.3f, kn %.3f; after a pause nk %.3f, kn %.3f\n",
              c[0].median() / c[1].median(), c[2].median() / c[3].median(), c[0].median_cold() / c[1].median_cold(),
              c[2].median_cold() / c[3].median_cold());
}

struct Scatter {
  Shape s;
  Inputs4 in;
  CudaExecutor kept, ring, direct;
  DeviceReduceScatter collective;

  explicit Scatter(const Shape& shape)
      : s(shape),
        in(shape, 4),
        kept(kept_plan(s, 4), {}),
        ring(scatter_plan(s, 4, Route::ring), {}),
        direct(scatter_plan(s, 4, Route::direct), {}),
        collective({kept.output(0), kept.output(1), kept.output(2), kept.output(3)}, s.m, s.n) {}

  void check(const char* what, const std::function<const void*(int)>& output) {
    double worst = 0;
    for (int r = 0; r < 4; ++r) worst = std::max(worst, error_at({0, 1, 2, 3}, in, s, output(r), r * s.m / 4, s.m / 4));
    require_right(what, worst);
  }
  void check_all() {
    for (CudaExecutor* e : {&kept, &ring, &direct}) e->start(in.operands), e->finish();
    check("fused ring", [&](int r) { return ring.output(r); });
    check("fused direct", [&](int r) { return direct.output(r); });
    collective.direct();
    check("our gemm, then direct", [&](int r) { return collective.output(r); });
    collective.ring();
    check("our gemm, then ring", [&](int r) { return collective.output(r); });
  }
};

void bench_scatter(const Shape& s, int blocks) {
  std::printf("gemm-rs %ld x %ld x %ld, 4 ranks, hbm\n", s.m, s.n, s.k);
  Scatter b(s);
  b.check_all();
  CublasLtGemm lt(s.m, s.n, s.k, WeightLayout::nk);
  std::vector<DeviceMemory> made;
  for (int r = 0; r < 4; ++r) made.emplace_back(s.m * s.n * 2);
  lt.tune(b.in.x[0].data(), b.in.w[0].data(), made[0].data());
  DeviceReduceScatter after({made[0].data(), made[1].data(), made[2].data(), made[3].data()}, s.m, s.n);
  const auto multiply = [&] {
    for (std::size_t r = 0; r < 4; ++r) lt.run(b.in.x[r].data(), b.in.w[r].data(), made[r].data());
  };
  const auto kept = [&] { b.kept.start(b.in.operands); };
  std::vector<Contender> c = {{"our gemm, outputs kept", kept},
                              {"fused ring", [&] { b.ring.start(b.in.operands); }},
                              {"fused direct", [&] { b.direct.start(b.in.operands); }},
                              {"our gemm, then direct", [&] { kept(), b.collective.direct(); }},
                              {"our gemm, then ring", [&] { kept(), b.collective.ring(); }},
                              {"cuBLASLt rank by rank", multiply},
                              {"cuBLASLt rank by rank, then direct", [&] { multiply(), after.direct(); }},
                              {"our gemm, outputs kept, A/A", kept}};
  contest(&c, blocks, 60000);
  print(c, 8.0 * double(s.m) * double(s.n) * double(s.k));
}

// Of what a paced link costs a sequential run, how much is hidden: against the larger of the gemm and of the link's own
// time, bytes by rate, which no collective can beat. All of it after a pause, where the clock is one.
void bench_paced(const Shape& s, int blocks) {
  std::printf("gemm-rs %ld x %ld x %ld, 4 ranks, paced\n", s.m, s.n, s.k);
  Scatter b(s);
  b.check_all();
  const auto kept = [&] { b.kept.start(b.in.operands); };
  std::vector<Contender> alone = {{"our gemm", kept}};
  contest(&alone, 3, 20000);
  for (const double ratio : {0.5, 1.0, 2.0}) {
    const double bytes = double(s.m) * double(s.n) * 2 * 3 / 4, link = ratio * alone[0].median_cold();
    const double ns_per_byte = link * 1e3 / bytes;
    Pace pace;
    pace.bytes_per_s = 1e9 / ns_per_byte;
    pace.latency_s = 1e-6;
    CudaExecutor ring(scatter_plan(s, 4, Route::ring), {.pace = pace});
    CudaExecutor direct(scatter_plan(s, 4, Route::direct), {.pace = pace});
    ring.start(b.in.operands), ring.finish();
    b.check("fused ring, paced", [&](int r) { return ring.output(r); });
    const auto collective = [&] { b.collective.ring(ns_per_byte, 1000); };
    std::vector<Contender> c = {{"our gemm", kept},
                                {"ring alone", collective},
                                {"our gemm, then ring", [&] { kept(), collective(); }},
                                {"fused ring", [&] { ring.start(b.in.operands); }},
                                {"fused direct", [&] { direct.start(b.in.operands); }},
                                {"our gemm, A/A", kept}};
    contest(&c, blocks, 20000);
    std::printf("  communication : compute %.1f, links of %.1f GB/s, %.0f us\n", ratio, 1 / ns_per_byte, link);
    print(c, 8.0 * double(s.m) * double(s.n) * double(s.k));
    const double sequential = c[2].median_cold(), fused = c[3].median_cold();
    const double ideal = std::max(c[0].median_cold(), link);
    std::printf("  -> hidden %.3f, speedup %.3f\n", (sequential - fused) / (sequential - ideal), sequential / fused);
  }
}

void print_device() {
  const auto facts = device_facts();
  if (!facts) bad_input("there is no GPU here");
  std::printf("%s, %d multiprocessors, driver %d\n", facts->name.c_str(), facts->multiprocessors, facts->driver);
  if (!CublasLtGemm::is_installed()) bad_input("libcublasLt.so.13 is not in LD_LIBRARY_PATH; it is the baseline");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    const std::string what = argc > 1 ? argv[1] : "all";
    const int blocks = argc > 2 ? std::stoi(argv[2]) : 5;
    const std::int64_t only = argc > 3 ? std::stoi(argv[3]) : 0;
    weft::print_device();
    if (what == "gemm" || what == "all")
      for (const weft::Shape& s : {weft::Shape{8192, 8192, 8192}, {4096, 8192, 2048}, {8192, 8192, 1024}})
        if (only == 0 || only == s.k) weft::bench_gemm(s, blocks);
    for (const std::int64_t k : {1024, 2048, 4096}) {
      if (only != 0 && only != k) continue;
      if (what == "rs" || what == "all") weft::bench_scatter({8192, 8192, k}, blocks);
      if (what == "paced" || what == "all") weft::bench_paced({8192, 8192, k}, blocks);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_gemm: %s\n", error.what());
    return 1;
  }
}
