// The state of a distillation in its output folder: one file of whole f32 tensors for every finished block, and what it
// was made with. Used by rank 0 alone.
#pragma once

#include <optional>
#include <string>

#include "weft/llm/distill/distill.h"

namespace weft {

class DistillState {
 public:
  // `settings` is all that the bytes depend on.
  DistillState(std::string folder, const ModelConfig& config, std::string settings);

  // The finished block, or nothing. Throws bad_input where the file is of other settings.
  std::optional<DistilledBlock> find(int block) const;
  void save(const DistilledBlock& done) const;  // whole or not at all

 private:
  std::string path(int block) const;
  std::string folder_;
  const ModelConfig& config_;
  std::string settings_;
};

// All that a result depends on, in one line.
std::string settings_of(const DistillJob& job, int ranks);

}  // namespace weft
