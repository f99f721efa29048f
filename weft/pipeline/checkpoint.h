// Checkpoints, and the trained model as a folder. A checkpoint is one safetensors file of whole tensors: weights, both
// moments of AdamW ("mean.NAME", "square.NAME"), and in its metadata the step and what it was made with. It is written
// whole or not at all, so what was cut off is never there to be loaded.
//
// Saving reshards: every tensor moves from the mesh of its stage to rank 0, which writes. Loading does too, from the
// file: each rank reads the boxes that its own mesh asks for. So a checkpoint of any mesh starts on any other.
#pragma once

#include <optional>
#include <string>

#include "weft/pipeline/trainer.h"

namespace weft::pipeline {

// "DIR/checkpoint-000100.safetensors"
std::string checkpoint_path(const std::string& folder, std::int64_t step);
// The latest in the folder, or none.
std::optional<std::string> latest_checkpoint(const std::string& folder);

class Saver {
 public:
  Saver(World& world, const TrainConfig& config, Trainer& trainer);  // collective: plans the move to rank 0
  ~Saver();

  // Collective. Throws io where the disk refuses; older checkpoints stay. Keeps the newest `keep`, 0: all.
  void save(const std::string& folder, int keep);
  // Collective: config.json, model.safetensors and the tokenizer's files, as transformers and `weft generate` read
  // them. Of a u_transformer there is no such folder: bad_input.
  void write_model(const std::string& folder);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws bad_input where the file is of another model or cannot be read as a checkpoint.
void load_checkpoint(const std::string& path, const TrainConfig& config, Trainer& trainer);

}  // namespace weft::pipeline
