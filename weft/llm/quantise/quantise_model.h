// A model's folder to a GGUF file with weights in blocks (base/quant/blocks.h), as llama.cpp reads it too: names,
// settings and the order of rotary rows are its own. Norms, biases and learned positions stay f32. The embedding, which
// is the head as well where it is tied, is what few bits hurt most: q4_k and q4_0 files have it as q6_k. A mix gives
// more bits to more of them, as llama.cpp's Q4_K_M does: values and down projections of half of the blocks are q6_k.
// Rows that are no whole number of blocks of 256 take a format of 32 (q4_k: q4_0, q6_k: q8_0), and those that are none
// of 32 stay f32. With a text to calibrate on, weights are rounded so that products on that text stay near
// (base/quant/compensate.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "weft/base/dtype.h"

namespace weft {

enum class BitMix {
  even,  // one format for all weights of blocks
  more,  // q6_k for values and down projections of half of the blocks
};

struct QuantiseOptions {
  Dtype type = Dtype::q8_0;
  BitMix mix = BitMix::even;
  std::string calibrate;        // a text file; empty: weights are rounded one by one
  std::int64_t tokens = 32768;  // of it, at most
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t of)> progress;  // tensors; may be empty
};

struct QuantiseReport {
  std::map<std::string, int> tensors;              // type -> how many
  std::int64_t bytes_read = 0, bytes_written = 0;  // of tensors
  double bits_per_weight = 0;                      // of matrices
  bool has_tokenizer = false;                      // of llama.cpp's settings; without them only Weft can read texts
};

// Throws bad_input where llama.cpp's files cannot say all of the folder's model, the text has not one window, or the
// file cannot be written.
QuantiseReport quantise_model(const std::string& folder, const std::string& path, const QuantiseOptions& options);

// The format that a row of `cols` values takes where `type` is asked for; f32 where none fits.
Dtype fitting_format(Dtype type, std::int64_t cols);

// Whether a mix gives more bits to a block: the first and last eighth, and every third in between.
bool has_more_bits(std::int64_t block, std::int64_t blocks);

}  // namespace weft
