// The ledger's row of training: a step of the same model in as many stages as there are ranks, on the same links.
#pragma once

#include <optional>

#include "weft/study/ledger/model_task.h"
#include "weft/study/ledger/table.h"

namespace weft {

// Collective. Measured: the full system; exposed: what it takes beyond messages of one element; its note has the step
// that stops for transfers. None where the model is no Llama, or has fewer blocks than there are ranks.
std::optional<LedgerRow> training_row(World& world, const ModelTask& task);

}  // namespace weft
