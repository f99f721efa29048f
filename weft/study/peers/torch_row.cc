#include "weft/study/peers/torch_row.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/cluster/data_file.h"
#include "weft/transport/local/shm.h"

namespace weft {
namespace {

constexpr const char* kScript = "tools/ledger_torch.py";
constexpr const char* kTorchFloor = "torch_compute";  // no row: what the row takes without its collectives
constexpr std::chrono::seconds kPatience{60};

// Before anything is started; empty: nothing.
std::string obstacle(const ModelTask& task) {
  if (task.link.paced) return "gloo is not slowed down to a paced link; `weft ledger --link shm` measures it";
  if (launched_on_several_hosts()) return "it is measured on one host alone";
  if (find_beside_data(kScript).empty()) return fmt::format("there is no {} here", kScript);
  if (python_with_torch().empty())
    return "there is no torch in build-python/venv; `make python` installs it, VENV names another environment";
  return {};
}

// "store 4711" gives "4711" for "store"; throws io with what was said where that is something else.
std::string rest_of(const std::string& line, const std::string& word) {
  if (line.rfind(word + " ", 0) != 0) fail(Code::io, "{}", line.rfind("cannot ", 0) == 0 ? line.substr(7) : line);
  return line.substr(word.size() + 1);
}

}  // namespace

std::string python_with_torch() {
  const char* asked = std::getenv("VENV");
  const std::string folder = asked != nullptr && *asked != 0 ? asked : find_beside_data("build-python/venv");
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/lib", error))
    if (std::filesystem::is_directory(entry.path() / "site-packages" / "torch", error)) return folder + "/bin/python";
  return {};
}

TorchRank::TorchRank(CommonClock& clock, const ModelTask& task, int rank, const Say& say) {
  note_ = obstacle(task);
  if (clock.worst_of_ranks(note_.empty() ? 0 : 1) > 0) return;  // alike on all, unless a file has just gone
  say("starting PyTorch");
  start(clock, task, rank);
  ready_ = clock.worst_of_ranks(note_.empty() ? 0 : 1) == 0;
  if (!ready_ && note_.empty()) note_ = "another rank's PyTorch did not start";
  if (!ready_) child_.reset();
}

// Leaves why it did not work in the note. The port is told by all ranks, in whatever state they are.
void TorchRank::start(CommonClock& clock, const ModelTask& task, int rank) {
  std::int64_t port = 0;
  try {
    const auto number = [](int value) { return fmt::format("{}", value); };
    child_ = std::make_unique<PipedChild>(std::vector<std::string>{python_with_torch(), find_beside_data(kScript),
                                                                   task.folder, number(rank), number(task.ranks), "1"});
    child_->write(fmt::format("prompt {}", fmt::join(task.prompt, " ")));
    if (rank == 0) port = std::stoll(rest_of(child_->read(kPatience), "store"));
  } catch (const std::exception& error) {
    note_ = error.what();
  }
  port = clock.worst_of_ranks(port);
  if (!note_.empty() || port == 0) return;
  try {
    child_->write(fmt::format("join {}", port));
    version_ = rest_of(child_->read(kPatience), "ready");
  } catch (const std::exception& error) {
    note_ = error.what();
  }
}

void TorchRank::take_turn(const char* command) {
  child_->write(command);
  const int token = std::stoi(rest_of(child_->read(kPatience), "token"));
  if (std::string_view(command) == "run") token_ = token;
}

std::vector<Contestant> TorchRank::contestants() {
  if (!ready_) return {};
  return {{.name = kTorchRow, .run = [this] { take_turn("run"); }},
          {.name = kTorchFloor, .run = [this] { take_turn("alone"); }}};
}

void TorchRank::add_row(const Rounds& rounds, int token, LedgerTable* table) {
  if (!ready_) return;
  if (token_ != token) {
    note_ = fmt::format("its first token is {}, not {}", token_, token);
    return;
  }
  LedgerRow row{.name = kTorchRow, .measured_us = rounds.median_us(kTorchRow)};
  row.exposed_us = *row.measured_us - *rounds.median_us(kTorchFloor);
  table->rows.insert(table->rows.end() - 1, row);  // the floor stays last
  note_ = fmt::format(
      "{}, float32, a thread per rank; its products, then gloo's all_reduce, and exposed is what it takes beyond the "
      "same without collectives",
      version_);
}

}  // namespace weft
