// The floors of the producers on one core: gemm beside oneDNN and OpenBLAS, gemv and embedding_bag beside a loop that
// only reads. Everything is timed in the same rounds, in turns, weights rotated over more than twice the last-level
// cache; results are checked. Usage: [WEFT_ISA=avx2] kernel_floor [--json] [--rounds N] [--only
// gemm|gemv|embedding_bag]; the libraries are held to the same instruction set.
#include "bench/kernel_floor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/statistics.h"
#include "weft/kernel/isa.h"

namespace weft::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(const std::function<void()>& f, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) f();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

std::int64_t cache_bytes() { return std::clamp<std::int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), 1 << 20, 64 << 20); }

void print_table(const std::vector<Row>& rows) {
  fmt::print("{:<14}{:<28}{:>9}{:>9}{:>8}  {}\n", "producer", "shape", "weft", "floor", "ratio", "unit, floor");
  for (const Row& r : rows)
    fmt::print("{:<14}{:<28}{:>9.1f}{:>9.1f}{:>8.3f}  {}\n", r.part, r.shape, r.weft, r.floor, r.weft / r.floor,
               r.note);
}

void print_json(const std::vector<Row>& rows) {
  nlohmann::json out;
  for (const Row& r : rows)
    out["rows"].push_back({{"producer", r.part},
                           {"shape", r.shape},
                           {"weft", r.weft},
                           {"floor", r.floor},
                           {"ratio", r.weft / r.floor},
                           {"note", r.note}});
  fmt::print("{}\n", out.dump(2));
}

}  // namespace

std::vector<double> medians(int rounds, const std::vector<std::function<void()>>& contestants) {
  constexpr double kLeastTurn = 250e-6;
  std::vector<int> calls;
  for (const auto& f : contestants) {
    f();
    calls.push_back(static_cast<int>(std::clamp(kLeastTurn / seconds(f, 3), 1.0, 10000.0)));
  }
  std::vector<std::vector<double>> times(contestants.size());
  for (int i = 0; i < rounds; ++i)
    for (std::size_t c = 0; c < contestants.size(); ++c) times[c].push_back(seconds(contestants[c], calls[c]));
  std::vector<double> out;
  for (auto& t : times) out.push_back(median(t));
  return out;
}

std::vector<double> turns(const std::vector<std::function<void()>>& contestants) {
  std::vector<double> out;
  for (const auto& f : contestants) out.push_back(seconds(f, 1));
  return out;
}

Rotated::Rotated(std::int64_t floats) : floats_(floats), copies_(2 * cache_bytes() / (4 * floats) + 2) {
  const std::vector<float> one = values(floats);
  for (std::int64_t i = 0; i < copies_; ++i) data_.insert(data_.end(), one.begin(), one.end());
}

std::vector<float> values(std::int64_t count) {
  std::vector<float> out(num(count));
  std::uint32_t state = 12345;
  for (float& v : out) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
  }
  return out;
}

// One core for all, and the instruction set of WEFT_ISA for the libraries too. OpenMP and OpenBLAS have read their
// environment before main: the program begins again with this one.
void begin_again(char** argv) {
  if (const char* done = std::getenv("WEFT_FLOOR"); done != nullptr) return;
  setenv("WEFT_FLOOR", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  if (best_isa() == Isa::avx2) {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 0);
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  }
  execv("/proc/self/exe", argv);
}

}  // namespace weft::bench

int main(int argc, char** argv) {
  using namespace weft::bench;
  Options options;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--json") json = true;
    if (arg == "--rounds" && i + 1 < argc) options.rounds = std::max(1, std::atoi(argv[++i]));
    if (arg == "--only" && i + 1 < argc) options.only = argv[++i];
  }
  begin_again(argv);
  try {
    std::vector<Row> rows;
    weft::World::local(1, [&](weft::World& world) {
      const auto wanted = [&](std::string_view part) { return options.only.empty() || options.only == part; };
      if (wanted("gemm")) run_gemm(world, options, &rows);
      if (wanted("gemv")) run_gemv(world, options, &rows);
      if (wanted("embedding_bag")) run_embedding_bag(world, options, &rows);
    });
    json ? print_json(rows) : print_table(rows);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_floor: {}\n", error.what());
    return 1;
  }
  return 0;
}
