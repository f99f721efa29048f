// What a rank takes of a core while it waits for another: rank 0 comes some seconds late to an all-reduce, and all
// others wait in Op::output() meanwhile. Their user and system time, of all threads, over the time they waited.
//
//   weft run -n 2 -- idle_wait [--seconds 3] [--json]
//   weft cluster run -n 2 -- idle_wait --json         between hosts, where a wire is waited on too
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/weft.h"

namespace {

constexpr std::int64_t kRows = 64, kCols = 1024;

double cpu_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Of a core; the late rank has 0 here, for it does not wait.
double waiting_share(weft::Op& all_reduce, int rank, double late_s) {
  const std::vector<float> x(kRows * kCols, 1.0f);
  if (rank == 0) std::this_thread::sleep_for(std::chrono::duration<double>(late_s));
  const double cpu = cpu_s();
  const std::int64_t start = weft::now_ns();
  all_reduce.run(x.data());
  all_reduce.output();
  const double waited = static_cast<double>(weft::now_ns() - start) * 1e-9;
  if (rank != 0 && waited < 0.9 * late_s)
    weft::fail(weft::Code::internal, "rank {} waited {:.2f} s where rank 0 came {:.2f} s late", rank, waited, late_s);
  return rank == 0 ? 0 : (cpu_s() - cpu) / waited;
}

// The largest of all ranks, at every rank: a gather of one row each.
double largest(weft::World& world, const weft::Mesh& mesh, double mine) {
  weft::Op gather = world.compile(weft::copy({.rows = 1, .cols = 1}), weft::all_gather(mesh, "all"));
  const auto value = static_cast<float>(mine);
  gather.run(&value);
  double out = 0;
  for (const float one : gather.output().values()) out = std::max(out, static_cast<double>(one));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    double late_s = 3;
    bool json = false;
    for (int i = 1; i < argc; ++i) {
      const std::string_view option = argv[i];
      if (option == "--json") json = true;
      if (option == "--seconds" && i + 1 < argc) late_s = std::atof(argv[i + 1]);
    }
    weft::World world = weft::World::init(argc, argv);
    if (world.size() < 2 || !(late_s > 0))
      weft::bad_input("idle_wait needs 2 ranks or more and --seconds above 0; use weft run -n 2 -- idle_wait");
    const weft::Mesh mesh = world.mesh({{"all", world.size()}});
    weft::Op all_reduce = world.compile(weft::copy({.rows = kRows, .cols = kCols}), weft::all_reduce(mesh, "all"));
    waiting_share(all_reduce, world.rank(), 0.01);  // connects, and touches all memory
    const double share = largest(world, mesh, waiting_share(all_reduce, world.rank(), late_s));
    if (world.rank() != 0) return 0;
    if (json)
      fmt::print("{{\"ranks\": {}, \"transport\": \"{}\", \"late_s\": {}, \"share_of_core\": {:.6f}}}\n", world.size(),
                 world.transport(), late_s, share);
    else
      fmt::print("{} ranks ({}): one that waits {} s takes {:.2f} % of a core\n", world.size(), world.transport(),
                 late_s, 100 * share);
    return 0;
  } catch (const weft::Error& error) {
    fmt::print(stderr, "idle_wait: {}\n", error.what());
    return error.code() == weft::Code::bad_input ? 2 : 1;
  }
}
