// Starts local ranks as processes, serves their rendezvous, watches over them and leaves nothing behind. They are a
// world of their own, or part of one: then a launch on every host starts its share, and the ranks join (net_join.h).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

// Whose standard output reaches the launcher's. Standard error always does.
enum class Output { all_ranks, rank_zero };

struct LaunchOptions {
  int num_ranks = 1;
  std::vector<std::string> argv;  // argv[0] is looked for in PATH; "/proc/self/exe" is this program
  std::vector<std::pair<std::string, std::string>> env = {};  // added to this process's own
  Output output = Output::all_ranks;
  // Where the world is larger than this launch: where its rank 0 listens, the rank that the first one here has in it,
  // and how many it has in all. The secret (net_handshake.h) is in the environment.
  std::string rendezvous = {};  // HOST:PORT
  int first_rank = 0;
  int world_size = 0;  // 0: num_ranks
};

struct RankEnd {
  int exit_code = 0;  // 128 + signal where one ended it
  int signal = 0;     // 0: it exited
};

struct LaunchResult {
  std::vector<RankEnd> ranks;  // of this launch
  int first_rank = 0;          // what the first of them is in the world
  int first_failed = -1;       // the rank of the world that failed first, here or elsewhere; -1 where all ended well
  std::string host;            // that rank's, where anyone knows it
  std::string reason;          // why, as far as anyone could say
  bool interrupted = false;    // by SIGINT or SIGTERM to the launcher
  std::vector<std::string> words;  // of each rank of this launch, what it left (leave_words); empty: nothing
  // How the rank that failed first ended; null where that was none of these.
  const RankEnd* first_failed_here() const;
  // What the rank that failed first left; of the first here that left something, where that one did not. May be empty.
  std::string sentence() const;
  // 0 when all ranks ended well, 2 when the first to fail said 2 (bad input), otherwise 1.
  int exit_code() const;
};

// Runs until every rank has ended. Once one has failed (a signal, an exit code other than 0, an exit without
// leaving its transport) the others have 2 s to say what they have to say, then get SIGTERM, and SIGKILL 1 s
// later. SIGINT or SIGTERM here: SIGTERM to all, SIGKILL 1 s later. Children are started by posix_spawn,
// never by fork alone, which hangs after OpenMP or CUDA. One launch at a time in a process. bad_input when
// the program cannot be started.
LaunchResult launch(const LaunchOptions& options);

// For a rank that ends with an error: leaves the sentence with its launcher, which says it once, whichever rank ends
// first. False where no launcher listens (mpirun, threads): then it is the rank's own to say. The first sentence
// counts.
bool leave_words(std::string_view sentence);
bool words_are_heard();

}  // namespace weft
