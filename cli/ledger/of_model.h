// The part of `weft ledger` that is about a model that is there: its flags, what they name, and who measures what.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/ledger/model_ledger.h"

namespace CLI {
class App;
}

namespace weft::cli {

struct ModelFlags {
  std::string model = "weft-16";  // a name in models/, or a folder
  std::string spd, prompt, text;
  int tokens = 512;
};
void add_model_flags(CLI::App& app, ModelFlags* flags);

// Reads what the flags name. Throws bad_input.
ModelTask model_task(const ModelFlags& flags, int ranks);

// On every rank; rank 0 gets the ledger, with predictions, losses and the simulated row.
std::optional<ModelLedger> ledger_of_model(const ModelFlags& flags, const ModelTask& task,
                                           const std::function<World()>& join);

}  // namespace weft::cli
