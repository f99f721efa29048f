// gemm kept where it is made, beside the fastest of dnnl_sgemm, oneDNN's matmul with weights in the format it likes
// best, and OpenBLAS where it is installed. Reordering weights for the matmul is not counted; Weft's packing is.
#include <algorithm>
#include <cmath>

#ifdef WEFT_HAVE_CBLAS
#include <cblas.h>
#endif
#include <dnnl.hpp>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

#include "bench/kernel_floor.h"

namespace weft::bench {
namespace {

struct Shape {
  std::int64_t m, n, k;
};

constexpr Shape kShapes[] = {{2048, 2048, 1024}, {1000, 3000, 777}, {8192, 1024, 1024}, {2048, 2048, 32},
                             {2048, 2048, 64},   {2048, 2048, 128}, {2048, 2048, 256},  {2048, 1024, 64},
                             {2048, 128, 1024},  {512, 1024, 4096}, {64, 4096, 1024}};

// The matmul primitive with all copies of the weights reordered beforehand.
class Matmul {
 public:
  Matmul(const Shape& s, const std::vector<float>& x, const Rotated& w, std::vector<float>* y) {
    using dnnl::memory;
    const auto f32 = memory::data_type::f32;
    const auto plain = memory::format_tag::ab;
    const memory::desc x_desc({s.m, s.k}, f32, plain), y_desc({s.m, s.n}, f32, plain);
    const memory::desc any({s.k, s.n}, f32, memory::format_tag::any), rows({s.k, s.n}, f32, plain);
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(x_desc, any, y_desc), engine_);
    matmul_ = dnnl::matmul(desc);
    x_ = memory(x_desc, engine_, const_cast<float*>(x.data()));
    y_ = memory(y_desc, engine_, y->data());
    for (std::int64_t i = 0; i < w.copies(); ++i) {
      memory from(rows, engine_, const_cast<float*>(w.copy(i)));
      w_.emplace_back(desc.weights_desc(), engine_);
      dnnl::reorder(from, w_.back()).execute(stream_, from, w_.back());
    }
    stream_.wait();
  }
  void run() {
    matmul_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_[turn_++ % w_.size()]}, {DNNL_ARG_DST, y_}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul matmul_;
  dnnl::memory x_, y_;
  std::vector<dnnl::memory> w_;
  std::size_t turn_ = 0;
};

void check(const Shape& s, const std::vector<float>& x, const float* w, const float* y) {
  for (std::int64_t i = 0; i < s.m * s.n; i += s.m * s.n / 1000 + 1) {
    double exact = 0;
    for (std::int64_t p = 0; p < s.k; ++p)
      exact += static_cast<double>(x[at(i / s.n * s.k + p)]) * w[p * s.n + i % s.n];
    if (!(std::abs(y[i] - exact) <= 1e-6 * static_cast<double>(s.k + 1)))
      fail(Code::internal, "gemm {}x{}x{} gives {} at {}, not {}", s.m, s.n, s.k, y[i], i, exact);
  }
}

Row measure(World& world, const Shape& s, int rounds) {
  const std::vector<float> x = values(s.m * s.k);
  Rotated w(s.k * s.n), w_sgemm(s.k * s.n), w_blas(s.k * s.n);
  // A result of its own for each, or one would find its lines cached by another.
  std::vector<float> y_sgemm(num(s.m * s.n)), y_matmul(num(s.m * s.n)), y_blas(num(s.m * s.n));
  Op op = world.compile(gemm({.m = s.m, .n = s.n, .k = s.k}), keep());
  Matmul matmul(s, x, w, &y_matmul);
  std::vector<std::function<void()>> contestants = {
      [&] {
        op.run(x.data(), w.next());
        op.output();
      },
      [&] { dnnl_sgemm('N', 'N', s.m, s.n, s.k, 1, x.data(), s.k, w_sgemm.next(), s.n, 0, y_sgemm.data(), s.n); },
      [&] { matmul.run(); }};
#ifdef WEFT_HAVE_CBLAS
  contestants.emplace_back([&] {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(s.m), static_cast<int>(s.n),
                static_cast<int>(s.k), 1, x.data(), static_cast<int>(s.k), w_blas.next(), static_cast<int>(s.n), 0,
                y_blas.data(), static_cast<int>(s.n));
  });
#endif
  const std::vector<double> times = medians(rounds, contestants);
  check(s, x, w.copy(0), op.output().data);
  check(s, x, w.copy(0), y_sgemm.data());
  check(s, x, w.copy(0), y_matmul.data());
  if (times.size() > 3) check(s, x, w.copy(0), y_blas.data());
  const double gflop = 2e-9 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
  std::string note = fmt::format("GF/s, oneDNN (sgemm {:.1f}, matmul {:.1f})", gflop / times[1], gflop / times[2]);
#ifdef WEFT_HAVE_CBLAS
  note += fmt::format(", OpenBLAS as {} {:.1f}", openblas_get_corename(), gflop / times[3]);
#endif
  return {"gemm", fmt::format("{}x{}x{}", s.m, s.n, s.k), gflop / times[0],
          gflop / *std::min_element(times.begin() + 1, times.end()), note};
}

}  // namespace

void run_gemm(World& world, const Options& options, std::vector<Row>* rows) {
  for (const Shape& s : kShapes) rows->push_back(measure(world, s, options.rounds));
}

}  // namespace weft::bench
