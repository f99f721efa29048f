// The flags that say how many ranks a command has, what they are and what lies between them: one spelling, one check
// and one meaning for all commands. A command adds those that it takes; on_ranks (cli/ranks.h) starts what they ask
// for.
#pragma once

#include <optional>
#include <string>

#include "weft/cluster/cluster.h"
#include "weft/world/world.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weft::cli {

struct RankFlags {
  int count = 1;
  int per_host = 0;               // of a paced link; 0: one
  int threads = 1;                // of each rank
  std::string transport = "shm";  // ranks are processes; or "threads": of this process
  std::string link = "shm";       // between ranks; also a wire (wire_kind.h), or a rate and a latency to pace it to
  std::string trace;              // where to write a timeline of all ranks; empty: nowhere
};

// Each returns its option, so that a command may add words of its own to the help.
CLI::Option* add_ranks_flag(CLI::App& app, RankFlags* flags, const std::string& help);
CLI::Option* add_ranks_per_host_flag(CLI::App& app, RankFlags* flags);
CLI::Option* add_threads_flag(CLI::App& app, RankFlags* flags, const std::string& help = "threads of each rank (1)");
CLI::Option* add_transport_flag(CLI::App& app, RankFlags* flags);
CLI::Option* add_link_flag(CLI::App& app, RankFlags* flags, const std::string& help = "");
CLI::Option* add_trace_flag(CLI::App& app, RankFlags* flags);

// Whether the link is one to pace: neither empty, nor memory, nor a real wire.
bool is_paced(const std::string& link);
// That link; none where there is nothing to pace. Throws bad_input where it is no link at all.
std::optional<Link> paced_link(const std::string& link);

// Throws bad_input for threads, transport, link and hosts that cannot be. How many ranks may be is the command's to
// say.
void check_rank_flags(const RankFlags& flags);
void check_num_ranks(int ranks, int least = 1);  // least to kMaxLocalRanks

WorldOptions world_options(const RankFlags& flags);

// The ranks that there will be: those of the launcher where one has started this process, else those that are asked
// for.
int num_ranks(int asked);
// --threads 0: each rank of this host takes its share of the cores.
void fill_threads(RankFlags* flags);
// Threads of each rank that share the cores of this machine, at least one.
int threads_sharing_cores(int ranks);

}  // namespace weft::cli
