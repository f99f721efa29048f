#include "weft/study/outside.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <climits>

#include "weft/base/index.h"
#include "weft/mesh/box.h"

namespace weft {
namespace {

// What an all_to_all of rows brings, packed by source, set side by side.
void set_side_by_side(const std::vector<float>& got, std::int64_t rows, const std::vector<std::int64_t>& cols,
                      float* y) {
  std::int64_t all = 0, at = 0, col = 0;
  for (const std::int64_t n : cols) all += n;
  for (const std::int64_t n : cols) {
    for (std::int64_t i = 0; i < rows; ++i, at += n) std::copy_n(got.data() + at, n, y + i * all + col);
    col += n;
  }
}

struct Exchange {
  std::vector<int> sent, got;        // elements to and from each rank
  std::vector<std::int64_t> cols;    // of each rank
  std::int64_t rows = 0, total = 0;  // of this rank's part; elements it gets
  bool even = true;
};

Exchange exchange_of(const OpSpec& spec, int rank) {
  const Producer& p = spec.producer;
  Exchange out;
  out.rows = cut(p.m, spec.ranks, rank + 1) - cut(p.m, spec.ranks, rank);
  for (int q = 0; q < spec.ranks; ++q) {
    const std::int64_t rows = cut(p.m, spec.ranks, q + 1) - cut(p.m, spec.ranks, q);
    out.cols.push_back(p.columns(q));
    out.sent.push_back(static_cast<int>(rows * p.columns(rank)));
    out.got.push_back(static_cast<int>(out.rows * p.columns(q)));
    out.total += out.got.back();
    out.even = out.even && out.sent[q] == out.sent[0] && out.got[q] == out.sent[0];
  }
  return out;
}

MpiCall all_to_all_call(baseline::Mpi& mpi, const OpSpec& spec) {
  const Exchange e = exchange_of(spec, mpi.rank());
  const bool side_by_side = spec.space.options.stack == Stack::columns;
  auto got = std::make_shared<std::vector<float>>(e.total);
  auto y = std::make_shared<std::vector<float>>(side_by_side ? e.total : 0);
  return {e.even ? "MPI_Alltoall" : "MPI_Alltoallv", [=, &mpi](const float* x) -> const float* {
            if (e.even)
              mpi.all_to_all(x, got->data(), e.sent[0]);
            else
              mpi.all_to_all_v(x, e.sent.data(), got->data(), e.got.data());
            if (!side_by_side) return got->data();
            set_side_by_side(*got, e.rows, e.cols, y->data());
            return y->data();
          }};
}

std::vector<MpiCall> reduce_scatter_calls(baseline::Mpi& mpi, const OpSpec& spec) {
  const Producer& p = spec.producer;
  std::vector<int> counts;
  for (int q = 0; q < spec.ranks; ++q)
    counts.push_back(static_cast<int>((cut(p.m, spec.ranks, q + 1) - cut(p.m, spec.ranks, q)) * p.n));
  auto y = std::make_shared<std::vector<float>>(p.m * p.n);
  const std::int64_t begin = cut(p.m, spec.ranks, mpi.rank()) * p.n, all = p.m * p.n;
  std::vector<MpiCall> out;
  if (p.m % spec.ranks == 0)
    out.push_back({"MPI_Reduce_scatter_block", [=, &mpi](const float* x) -> const float* {
                     mpi.reduce_scatter_block(x, y->data(), counts[0]);
                     return y->data();
                   }});
  else
    out.push_back({"MPI_Reduce_scatter", [=, &mpi](const float* x) -> const float* {
                     mpi.reduce_scatter(x, y->data(), counts.data());
                     return y->data();
                   }});
  out.push_back({"MPI_Allreduce", [=, &mpi](const float* x) -> const float* {
                   mpi.all_reduce(x, y->data(), all);
                   return y->data() + begin;
                 }});
  return out;
}

MpiCall broadcast_call(baseline::Mpi& mpi, std::int64_t count, int root) {
  auto y = std::make_shared<std::vector<float>>(count);
  return {"MPI_Bcast", [=, &mpi](const float* x) -> const float* {
            if (mpi.rank() == root) {  // sends from where it is; MPI_Bcast does not write at the root
              mpi.broadcast(const_cast<float*>(x), count, root);
              return x;
            }
            mpi.broadcast(y->data(), count, root);
            return y->data();
          }};
}

}  // namespace

MakerOf library_maker(Library library, const std::vector<const float*>& weights, int threads) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  auto known = std::make_shared<std::map<Key, std::shared_ptr<baseline::Gemm>>>();
  return [=](const Producer& p) -> Make {
    if (p.kind != ProducerKind::gemm || p.weight != Dtype::f32 || p.has_epilogue() || p.addend) return {};
    std::shared_ptr<baseline::Gemm>& gemm = (*known)[{p.m, p.n, p.k}];
    if (!gemm) {
      gemm = load_gemm(library, {p.m, p.n, p.k, threads});
      if (!gemm) return {};
      const std::vector<float> x(num(p.m * p.k), 0.5f);
      for (const float* w : weights) gemm->prepare(x.data(), w);
    }
    auto y = std::make_shared<std::vector<float>>(num(p.m * p.n));
    return [gemm, y, m = p.m, n = p.n](const Inputs& in) {
      gemm->run(in.x, static_cast<const float*>(in.w), y->data());
      return Matrix{y->data(), m, n};
    };
  };
}

std::vector<MpiCall> mpi_calls(baseline::Mpi& mpi, const OpSpec& spec) {
  const Producer& p = spec.producer;
  const std::int64_t count = p.m * p.n;
  if (count > INT_MAX / spec.ranks || mpi.size() != spec.ranks) return {};
  switch (spec.space.kind) {
    case SpaceKind::reduce_scatter:
      return reduce_scatter_calls(mpi, spec);
    case SpaceKind::all_reduce: {
      auto y = std::make_shared<std::vector<float>>(count);
      return {{"MPI_Allreduce", [=, &mpi](const float* x) -> const float* {
                 mpi.all_reduce(x, y->data(), count);
                 return y->data();
               }}};
    }
    case SpaceKind::all_gather: {
      auto y = std::make_shared<std::vector<float>>(count * spec.ranks);
      return {{"MPI_Allgather", [=, &mpi](const float* x) -> const float* {
                 mpi.all_gather(x, y->data(), count);
                 return y->data();
               }}};
    }
    case SpaceKind::all_to_all:
      return {all_to_all_call(mpi, spec)};
    case SpaceKind::broadcast:
      return {broadcast_call(mpi, count, spec.space.options.root)};
    case SpaceKind::keep:
      break;
  }
  return {};
}

}  // namespace weft
