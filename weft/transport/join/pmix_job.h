// The few things a rank of mpirun asks of PMIx, the library through which launchers of clusters talk to their
// processes: which node this is, and to pass one text from rank 0 to the others. The library counts its users, so that
// a program may call MPI_Init before, during or after.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace weft {

class PmixJob {
 public:
  static bool available();  // in this build

  PmixJob();  // bad_input where no launcher answers
  ~PmixJob();
  PmixJob(const PmixJob&) = delete;
  PmixJob& operator=(const PmixJob&) = delete;

  std::string node() const;  // different on different nodes, also where they share a kernel and a name
  std::string host() const;  // what the launcher calls this node

  void publish(const std::string& key, const std::string& text);
  // Waits until `rank` has published it; deadline, naming the rank.
  std::string look_up(int rank, const std::string& key, std::chrono::nanoseconds limit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
