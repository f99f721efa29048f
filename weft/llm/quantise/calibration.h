// What a model's products meet on a text: of every block, the sums x^T x of the inputs of its four kinds of products
// (q, k and v share one; gate and up another), as Compensation wants them. Blocks are gone through in order, one at a
// time, so that a model of any depth needs memory for one block's sums and for the rows of the text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/base/quant/compensate.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/eval/eval.h"
#include "weft/llm/model/model.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {

class Calibration {
 public:
  // A world of one rank; windows of one length. The model as it is, before anything is rounded.
  Calibration(World& world, const ModelSource& source, std::span<const TokenWindow> windows);
  ~Calibration();

  // Of the inputs of a weight of a block: q, k, v, o, gate, up or down. Blocks are asked for in order: bad_input for
  // one that has gone by.
  const Compensation& of(std::int64_t block, BlockPart part);

 private:
  enum class Input { attention, heads, feed_forward, activated };
  static constexpr std::size_t kInputs = 4;

  void go_through(std::int64_t block);
  void add(Input input, const float* x, std::int64_t rows, std::int64_t cols, std::int64_t ld);

  World& world_;
  Model model_;
  Engine engine_;
  std::vector<TokenWindow> windows_;
  std::vector<float> rows_;  // (windows, tokens, hidden): what enters the next block
  std::int64_t next_ = 0;    // block
  std::array<std::vector<float>, kInputs> sums_;
  std::array<std::unique_ptr<Compensation>, kInputs> made_;
};

}  // namespace weft
