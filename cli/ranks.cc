#include "cli/ranks.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "weft/transport/join/launch.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/local/shm.h"
#include "weft/world/trace.h"

namespace weft::cli {
namespace {

std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) words.emplace_back(text.c_str() + at);
  if (words.empty()) fail(Code::io, "cannot read /proc/self/cmdline; is /proc mounted?");
  words[0] = "/proc/self/exe";
  return words;
}

// A rank that ended of itself and left no words has said what there was to say.
bool was_said(const LaunchResult& result) {
  return result.first_failed_here()->signal == 0 &&
         (result.reason == "exited with code 1" || result.reason == "exited with code 2" ||
          result.reason == "it ended with an exception");
}

// Launches this very command line as `num_ranks` processes and waits for them. Rank 0 owns standard output. Says on
// standard error what no rank could say itself.
int relaunch(int num_ranks) {
  const LaunchResult result = launch({.num_ranks = num_ranks, .argv = own_words(), .output = Output::rank_zero});
  if (result.interrupted)
    fmt::print(stderr, "weft: interrupted; all {} ranks have been stopped\n", num_ranks);
  else if (const std::string sentence = result.sentence(); !sentence.empty())
    fmt::print(stderr, "weft: {}\n", sentence);
  else if (result.first_failed >= 0 && !was_said(result))
    fmt::print(stderr, "weft: rank {} of {} failed: {}\n", result.first_failed, num_ranks, result.reason);
  return result.exit_code();
}

int on_threads(const RankFlags& flags, const RankBody& body, const WorldOptions& options) {
  std::atomic<int> code{0};
  World::local(
      flags.count,
      [&](World& world) {
        if (const int mine = body(world); mine != 0) code = mine;
      },
      options);
  return code;
}

}  // namespace

int on_ranks(const RankFlags& flags, const RankBody& body, const AroundRanks& around) {
  const auto options = [&] { return around.options ? around.options() : world_options(flags); };
  if (!launched() && !flags.trace.empty()) check_trace(flags.trace);
  if (!launched() && flags.transport == "threads") {
    if (around.before) around.before();
    return on_threads(flags, body, options());
  }
  const auto as_rank = [&] {
    World world = World::init(0, nullptr, options());
    const int code = body(world);
    world.barrier();  // whoever fails from here on, as one whose report cannot be written does, takes nobody along
    return code;
  };
  return on_processes(flags.count, as_rank, around.before);
}

int on_processes(int count, const std::function<int()>& as_rank, const std::function<void()>& before) {
  if (before && (!launched() || under_mpirun())) before();
  return launched() ? as_rank() : relaunch(count);
}

bool speaks_of(const Error& error) {
  if (!launched()) return true;
  // Of a peer's failure `weft run` speaks; mpirun does not, so there one rank does.
  if (error.code() == Code::peer_failed || error.code() == Code::deadline)
    return under_mpirun() && launched_rank() == (error.rank() == 0 ? 1 : 0);
  return words_are_heard() || std::max(error.rank(), 0) == launched_rank();
}

}  // namespace weft::cli
