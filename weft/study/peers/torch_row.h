// The ledger's row "PyTorch, gloo": the same prompt of the same model in plain PyTorch, tensor-parallel over gloo. Each
// rank has a Python process beside it (tools/ledger_torch.py) that takes its turns in the rounds of all others, from
// the same common start until the slowest rank has the token, and sleeps meanwhile. It is measured over memory alone: a
// paced link holds up Weft's signals, of which gloo knows nothing, so that its row would say nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/base/os/piped_child.h"
#include "weft/study/clock.h"
#include "weft/study/ledger/model_task.h"
#include "weft/study/ledger/table.h"
#include "weft/study/rounds.h"

namespace weft {

inline constexpr const char* kTorchRow = "torch_gloo";

// The Python of the environment that `make python` fills (VENV, or build-python/venv): its path, where torch is in it,
// else empty. Looks for a folder, and starts nothing.
std::string python_with_torch();

class TorchRank {
 public:
  // Collective. Where there can be no row, ready() is false on every rank and note() says why.
  TorchRank(CommonClock& clock, const ModelTask& task, int rank, const Say& say);

  bool ready() const { return ready_; }
  const std::string& note() const { return note_; }  // what the row is, or why there is none

  // With its collectives, and without, for what it takes beside them.
  std::vector<Contestant> contestants();
  // After the rounds: puts the row before the floor, if the first token is the model's own.
  void add_row(const Rounds& rounds, int token, LedgerTable* table);

 private:
  void start(CommonClock& clock, const ModelTask& task, int rank);
  void take_turn(const char* command);

  std::unique_ptr<PipedChild> child_;
  bool ready_ = false;
  std::string note_, version_;
  int token_ = -1;  // the first one, with collectives
};

}  // namespace weft
