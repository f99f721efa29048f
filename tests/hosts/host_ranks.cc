#include "tests/hosts/host_ranks.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/log.h"
#include "weft/plan/price/traffic.h"
#include "weft/weft.h"

#include "tests/cases.h"
#include "tests/moves.h"

namespace weft::testing {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

std::string folder;  // where notes go

// Whole or not there: the test reads it as soon as it sees it.
void leave_note(const std::string& name, const std::string& text) {
  const std::string path = folder + "/" + name;
  std::ofstream(path + ".part", std::ios::binary) << text;
  std::filesystem::rename(path + ".part", path);
}

int smoke() {
  World world = World::init();
  const std::vector<float> values = smoke_outputs(world);
  leave_note(fmt::format("bits{}", world.rank()),
             std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  const Json seen{{"transport", world.transport()}, {"hosts", world.mesh({{"tp", world.size()}}).hosts()}};
  leave_note(fmt::format("seen{}", world.rank()), seen.dump());
  return 0;
}

// Some megabytes by every way that crosses hosts, and what the plans say of them.
int send() {
  constexpr int kRuns = 4;
  constexpr std::int64_t kRows = 2048, kCols = 512, kDepth = 8;
  World world = World::init();
  const Mesh mesh = world.mesh({{"tp", world.size()}});
  const int ranks_per_host = world.cluster(world.size()).ranks_per_host;
  const std::vector<float> x(kRows * kCols, 1.0f), w(kDepth * kCols, 1.0f);
  std::vector<HostTraffic> expected(2);
  std::int64_t sent = 0, told = 0;
  const auto repeat = [&](Op op) {
    for (int run = 0; run < kRuns; ++run)
      if (op.plan().producers.empty())
        testing::run(op, x.data());
      else
        op.run(x.data(), w.data());
    op.output();
    const auto once = host_traffic(op.plan(), ranks_per_host);
    for (int host = 0; host < 2; ++host) {
      expected[host].bytes_out += kRuns * once[host].bytes_out;
      expected[host].bytes_in += kRuns * once[host].bytes_in;
    }
    sent += op.sent().bytes;
    told += kRuns * traffic(op.plan()).ranks[world.rank()].bytes_to_peers;
  };
  SpaceOptions options;
  const Producer product = gemm({.m = kRows, .n = kCols, .k = kDepth});
  for (const Route route : {Route::ring, Route::direct}) {
    options.route = route;
    repeat(world.compile(product, reduce_scatter(mesh, "tp", options)));
  }
  options.route = ranks_per_host > 1 ? Route::two_level : Route::two_shot;
  repeat(world.compile(product, all_reduce(mesh, "tp", options)));
  // bf16 rows that become f32 where they land.
  const Moves moves{.num_ranks = world.size(),
                    .rows = kRows,
                    .cols = kCols,
                    .tile_rows = 64,
                    .list = {{0, world.size() - 1, 0, kRows}},
                    .source = Dtype::bf16};
  repeat(world.compile(plan_of(moves), mesh, "tp"));
  world.barrier();
  const Json seen{{"out", {expected[0].bytes_out, expected[1].bytes_out}},
                  {"in", {expected[0].bytes_in, expected[1].bytes_in}},
                  {"sent", sent},
                  {"told", told}};
  leave_note(fmt::format("traffic{}", world.rank()), seen.dump());
  return 0;
}

// In a thread of the rank that is to go, so that it goes in the middle of whatever it does: once the test says so.
void await_signal(int rank, int signal) {
  std::thread([=] {
    while (access((folder + "/go").c_str(), F_OK) != 0) std::this_thread::sleep_for(1ms);
    leave_note(fmt::format("signal{}", rank), fmt::format("{:.6f}", now_s()));
    kill(getpid(), signal);
  }).detach();
}

// Reduces for ever, until something ends it. Rank `victim` sends itself `signal`.
int reduce(int victim, int signal) {
  World world = World::init();
  const Mesh mesh = world.mesh({{"tp", world.size()}});
  if (world.rank() == victim) await_signal(victim, signal);
  try {
    Op op = world.compile(gemm({.m = 256, .n = 256, .k = 64}), all_reduce(mesh, "tp"));
    const std::vector<float> x(256 * 64, 1.0f), w(64 * 256, 1.0f);
    for (int run = 0;; ++run) {
      op.run(x.data(), w.data());
      op.output();
      if (run == 3) leave_note(fmt::format("works{}", world.rank()), "");
    }
  } catch (const Error& error) {
    const Json seen{{"at", now_s()}, {"rank", error.rank()}, {"host", error.host()}, {"what", error.what()}};
    leave_note(fmt::format("error{}", world.rank()), seen.dump());
    throw;
  }
}

void note_line(std::string_view line) {
  static const std::string path = fmt::format("{}/log{}", folder, getpid());
  std::ofstream(path, std::ios::app) << line << "\n";
}

// The last rank comes late, to a run and to a set-up call, by that many seconds.
int be_late(double to_run, double to_call) {
  set_log(note_line);
  World world = World::init();
  const Mesh mesh = world.mesh({{"tp", world.size()}});
  const bool late = world.rank() == world.size() - 1;
  Op op = world.compile(gemm({.m = 64, .n = 64, .k = 8}), all_reduce(mesh, "tp"));
  const std::vector<float> x(64 * 8, 1.0f), w(8 * 64, 1.0f);
  for (int run = 0; run < 4; ++run) {
    if (late && run == 2) std::this_thread::sleep_for(std::chrono::duration<double>(to_run));
    op.run(x.data(), w.data());
    if (op.output().data[0] != 8.0f * static_cast<float>(world.size())) return 3;
  }
  if (late) std::this_thread::sleep_for(std::chrono::duration<double>(to_call));
  world.barrier();
  leave_note(fmt::format("done{}", world.rank()), "");
  return 0;
}

int run_part(const std::string& part, int argc, char** argv) {
  if (part == "smoke") return smoke();
  if (part == "send") return send();
  if (part == "late" && argc == 5) return be_late(std::atof(argv[3]), std::atof(argv[4]));
  if (part == "reduce" && argc == 5) return reduce(std::atoi(argv[3]), std::atoi(argv[4]));
  // Where the last rank never joins.
  if (part == "absent") return std::getenv("WEFT_RANK") == std::string("3") ? 0 : smoke();
  return 4;
}

}  // namespace

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<float> smoke_outputs(World& world) {
  std::vector<float> values;
  for (const Case& c : all_cases(world.size())) {
    // Of the one ragged shape: all producers, spaces and routes.
    if (c.producer.n != 131 && c.producer.kind != ProducerKind::embedding_bag) continue;
    if (c.producer.m != 67 && c.producer.kind != ProducerKind::gemv) continue;
    Op op = compile(world, c);
    const int rank = c.space.kind == SpaceKind::keep ? 0 : world.rank();
    const Data data = make_data(c.producer, rank, 3);
    for (int run = 0; run < 3; ++run) op.run(data.inputs(c.producer));
    const Matrix y = op.output();
    values.insert(values.end(), y.data, y.data + y.rows * y.cols);
  }
  return values;
}

bool is_host_rank(int argc, char** argv) { return argc >= 3 && argv[1][0] != '-'; }

int run_host_rank(int argc, char** argv) {
  folder = argv[2];
  try {
    return run_part(argv[1], argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace weft::testing
