// The obvious twins of the kernels: plain loops, no blocking, no lanes. gemm_naive (f32, k in order, a
// rounding after each product and each sum) serves the reference executor; the float64 ones judge the error
// of the others.
#pragma once

#include <cstdint>

#include "weft/kernel/attention/attention.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/kernel/rows/norm.h"
#include "weft/kernel/rows/sum.h"
#include "weft/kernel/table/embedding_bag.h"

namespace weft {

float element_at(const ConstStrip& strip, std::int64_t row, std::int64_t col);  // f32, bf16 or int8, widened

// c (m, n) = a (m, k) * b (k, n); a and b are f32 or bf16.
void gemm_naive(std::int64_t m, std::int64_t n, std::int64_t k, const ConstStrip& a, const ConstStrip& b, float* c,
                std::int64_t ldc);
void gemm_f64(std::int64_t m, std::int64_t n, std::int64_t k, const ConstStrip& a, const ConstStrip& b, double* c,
              std::int64_t ldc);

// y (rows) = w (rows, k) . x (k)
void gemv_f64(std::int64_t rows, std::int64_t k, const ConstStrip& w, const float* x, double* y);

// As embedding_bag.
void embedding_bag_f64(const EmbeddingTable& table, const Bags& bags, Pooling pooling, std::int64_t begin,
                       std::int64_t end, double* out, std::int64_t ld);

double activation_f64(Activation activation, double x);

// y (cols) of one row x (cols).
void rms_norm_f64(std::int64_t cols, const RmsNorm& norm, const float* x, double* y);

// y (sequence, heads * v_dim), packed, as Attention::run.
void attention_f64(const AttentionShape& shape, const float* q, const float* k, const float* v, double* y);

// A row of int8 blocks (base/dtype.h) from `count` floats: as copy, the same bits.
void quantise_naive(std::int64_t count, const float* values, std::byte* blocks);

// As sum: the same bits.
void sum_naive(std::int64_t rows, std::int64_t cols, std::span<const ConstStrip> sources, const Strip& target);

}  // namespace weft
