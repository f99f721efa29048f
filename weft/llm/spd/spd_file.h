// An spd file: what every block of one model does at one tensor-parallel degree, as `--spd FILE` takes it. JSON:
//
//   {"format": 1,
//    "model": "5d41...",                   // hash of the model it was made for (Model::hash)
//    "tp": 4,                              // ranks it was made for: sensitivity and repaired weights fit one degree
//    "blocks": ["drop", "int8", ...],      // one mode per block (block_mode.h)
//    "sensitivity": [12.4, 1.05, ...],     // optional; S of every block (spd/sensitivity.h): what to repair, and how
//    "weights": "repaired.safetensors",    // optional; a path from the folder of the spd file
//    "weights_sha256": "9f86...",          // of that file; there whenever "weights" is
//    "why": "..."}                         // optional, for people: what made the choice
//
// The weights' file holds whole tensors under the model's own names for the blocks it repairs, heads already in their
// new order; rank i takes shard i of them, as of the model's. One named "rank<i>.NAME" is for rank i alone. They are
// used in the blocks that are dropped (spd_model.h); a tensor that is not in the file is the model's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weft/llm/model/block_mode.h"

namespace weft {

inline constexpr int kSpdFormat = 1;
inline constexpr int kMostBlocks = 4096;
inline constexpr int kMostTp = 4096;

struct SpdFile {
  std::string model;  // 64 hexadecimal digits
  int tp = 1;
  std::vector<BlockMode> blocks;
  std::vector<double> sensitivity;  // one for every block, or empty
  std::string weights;              // as written in the file; empty: none
  std::string weights_sha256;       // 64 hexadecimal digits where there are weights
  std::string why;
  std::string path;  // where it was read from, or "" ; for messages and for weights_path()

  std::string weights_path() const;  // "" where there are none
};

// Each throws bad_input naming the file, the field and the remedy. A weights' file is looked for where the spd file
// says, then beside it, as whoever moves both leaves them. That it is there is checked, not what is in it: that takes
// reading it, which check_spd_weights() does.
SpdFile load_spd(const std::string& path);
SpdFile parse_spd(std::string_view text, const std::string& path);

std::string to_json(const SpdFile& spd);
void save_spd(const SpdFile& spd, const std::string& path);  // atomic: a temporary file and a rename

// Refuses another model, another number of ranks or of blocks, in this order. `model_name` is for the message.
struct SpdTarget {
  std::string model_name;  // the folder
  std::string hash;
  int ranks = 1;
  int blocks = 0;
};
void check_spd(const SpdFile& spd, const SpdTarget& target);

// Reads the whole file of weights (about 0.3 GB/s) and refuses one that has changed since. For whoever starts the
// ranks, once; nothing to do where there are no weights.
void check_spd_weights(const SpdFile& spd);

}  // namespace weft
