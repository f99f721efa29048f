// What a call of an op on a GPU costs the host, from C++: the shapes and row names of tools/call_torch_gpu.py, so that
// PyTorch's share is the difference.
//   weft run -n 4 -- cuda_call [REPEATS]     ranks are processes; those that share a GPU need MPS
//   cuda_call [REPEATS]                      one rank
// A time is that of 20 calls in a row, which nobody waits for, divided by 20: minimum and median of all repeats, of
// rank 0. Between repeats the GPU ends its work and ranks meet.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/device.h"
#include "weft/weft.h"

namespace weft {
namespace {

constexpr int kCalls = 20;
constexpr std::int64_t kRows = 512, kN = 1024, kK = 256;                                    // of a product
constexpr std::int64_t kTables = 6, kTableRows = 1000, kDim = 128, kBag = 2, kBatch = 512;  // of bags

class Calls {
 public:
  Calls(World& world, int repeats) : world_(world), repeats_(repeats), queue_(QueueKind::apart) {}
  void* queue() const { return queue_.handle(); }

  void time(const char* name, CudaOp& op, const std::function<void()>& call) {
    std::vector<double> us;
    for (int repeat = -3; repeat < repeats_; ++repeat) {
      op.finish();
      world_.barrier();
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) call();
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      if (repeat >= 0) us.push_back(took.count() / kCalls);
    }
    op.finish();
    std::sort(us.begin(), us.end());
    if (world_.rank() == 0) std::printf("| %-52s | %6.1f | %6.1f |\n", name, us.front(), us[us.size() / 2]);
  }

 private:
  World& world_;
  int repeats_;
  DeviceQueue queue_;
};

GemmOptions product(std::int64_t rows) { return {.m = rows, .n = kN, .k = kK, .layout = WeightLayout::nk}; }

// Zeros are as good as other numbers: the host does not look at them.
struct Linear {
  DeviceMemory x{kRows * kN * 2}, w{kN * kK * 2}, bias{kN * 2}, y{kRows * 8 * kN * 2};
  CudaOperands plain{x.data(), w.data()};
};

void time_sums(World& world, Calls& calls, Linear& of) {
  const Mesh mesh = world.mesh({{"tp", world.size()}});
  for (const std::int64_t rows : {std::int64_t{1}, kRows}) {
    CudaOp op = world.compile_cuda(gemm(product(rows)), all_reduce(mesh, "tp"), {});
    const std::string name = fmt::format("linear_all_reduce, {} rows", rows);
    if (!op.own_output()) {
      calls.time((name + ", alias").c_str(), op, [&] { op.run(of.plain, calls.queue()); });
      calls.time(name.c_str(), op,
                 [&] { op.run(of.plain, calls.queue()), op.copy_output(of.y.data(), calls.queue()); });
    } else {
      CudaOperands given = of.plain;
      given.y = of.y.data();
      calls.time(name.c_str(), op, [&] { op.run(given, calls.queue()); });
    }
  }
  CudaOperands given = of.plain;
  given.y = of.y.data();
  CudaOp scatter = world.compile_cuda(gemm(product(kRows)), reduce_scatter(mesh, "tp"), {});
  calls.time("linear_reduce_scatter, 512 rows", scatter, [&] { scatter.run(given, calls.queue()); });
  GemmOptions finished = product(kRows);
  finished.bias = true, finished.activation = Activation::silu;
  CudaOp silu = world.compile_cuda(gemm(finished), reduce_scatter(mesh, "tp"), {});
  given.bias = of.bias.data(), given.bias_type = Dtype::bf16;
  calls.time("linear_reduce_scatter, 512 rows, bias and silu", silu, [&] { silu.run(given, calls.queue()); });
  CudaOp sum = world.compile_cuda(copy({.rows = kRows, .cols = kN, .dtype = Dtype::bf16}), all_reduce(mesh, "tp"), {});
  const CudaOperands rows{of.x.data()};
  calls.time("all_reduce, 512 rows", sum,
             [&] { sum.run(rows, calls.queue()), sum.copy_output(of.y.data(), calls.queue()); });
}

// Parts of `room` rows, all of which count; or, uneven, fewer by 8 for each rank that comes later.
void time_exchanges(World& world, Calls& calls, Linear& of) {
  const Mesh mesh = world.mesh({{"ep", world.size()}});
  const std::int64_t ranks = world.size(), room = kRows / ranks, row = kN * 2;
  CudaOp op = world.compile_cuda(gemm(product(kRows)), all_to_all(mesh, "ep"), {});
  std::vector<std::int64_t> counts(num(ranks), room);
  calls.time("linear_all_to_all, even", op, [&] {
    op.limit({.peers = counts});
    op.run(of.plain, calls.queue()), op.copy_output(of.y.data(), 0, kRows * row, calls.queue());
  });
  for (std::int64_t r = 0; r < ranks; ++r) counts[at(r)] -= 8 * (r + 1);
  DeviceMemory spread(kRows * kK * 2);
  CudaOperands apart = of.plain;
  apart.x = spread.data();
  calls.time("linear_all_to_all, uneven", op, [&] {
    for (std::int64_t r = 0; r < ranks; ++r)
      op.copy(spread.data() + r * room * kK * 2, of.x.data(), counts[at(r)] * kK * 2, calls.queue());
    op.limit({.peers = counts});
    op.run(apart, calls.queue());
    for (std::int64_t s = 0; s < ranks; ++s)
      op.copy_output(of.y.data(), s * room * row, counts[at(world.rank())] * row, calls.queue());
  });
}

void time_bags(World& world, Calls& calls) {
  const Mesh mesh = world.mesh({{"ep", world.size()}});
  const EmbeddingOptions bags{.tables = kTables, .rows = kTableRows, .dim = kDim, .batch = kBatch * world.size()};
  CudaOp op = world.compile_cuda(embedding_bag(bags), all_to_all(mesh, "ep", {.stack = Stack::columns}), {});
  std::vector<std::int64_t> begins(num(bags.batch + 1));
  for (std::size_t b = 0; b < begins.size(); ++b) begins[b] = static_cast<std::int64_t>(b) * kBag;
  const DeviceMemory rows(kTableRows * kDim * 4), indices(bags.batch * kBag * 8), offsets = on_device(begins);
  DeviceMemory y(kBatch * kTables * world.size() * kDim * 4);
  const CudaTable table{reinterpret_cast<const float*>(rows.data()),
                        reinterpret_cast<const std::int64_t*>(indices.data()),
                        reinterpret_cast<const std::int64_t*>(offsets.data()), kTableRows, bags.batch * kBag};
  const std::vector<CudaTable> tables(kTables, table);
  calls.time("embedding_bag_all_to_all, 6 tables", op,
             [&] { op.run(BagOperands{tables}, calls.queue()), op.copy_output(y.data(), calls.queue()); });
}

void time_all(World& world, int repeats) {
  const auto facts = device_facts();
  if (!facts) bad_input("there is no GPU here");
  Calls calls(world, repeats);
  Linear operands;
  if (world.rank() == 0)
    std::printf("%s, driver %d, %d ranks; microseconds of the host per call\n| %-52s | %6s | %6s |\n|---|---:|---:|\n",
                facts->name.c_str(), facts->driver, world.size(), "from C++", "least", "median");
  time_sums(world, calls, operands);
  if (world.size() > 1) time_exchanges(world, calls, operands), time_bags(world, calls);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    weft::World world = weft::World::init();
    weft::time_all(world, argc > 1 ? std::stoi(argv[1]) : 50);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_call: %s\n", error.what());
    return 1;
  }
}
