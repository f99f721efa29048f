// Heads centred on their means: what a dropped block can be told of the other ranks' heads without training. Of a head
// whose mean output is c, the values get the bias -c, so that its output is less by c at every position (attention's
// weights sum to 1), and the output projection gets the bias W_O c, which puts it back. The model computes the same;
// but a dropped block's MLP now sees, in the bias, what all heads say on average, where it saw its own rank's alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/llm/eval/eval.h"
#include "weft/llm/model/model.h"

namespace weft {

struct NamedBias {
  std::string name;  // in the model's words
  std::vector<float> values;
};

// Mean outputs of all heads over these windows, (blocks, heads * head_dim), of the model as it is.
std::vector<std::vector<float>> measure_head_means(const ModelSource& source, std::span<const TokenWindow> windows,
                                                   int threads, const EvalProgress& progress = {});

// The biases of values and of the output projection of every block, the model's own counted in. Throws bad_input for a
// model that keeps its values in one tensor with other parts.
std::vector<NamedBias> centred_biases(const ModelSource& source, std::span<const std::vector<float>> head_means);

// The model with biases in place of its own; those it has not, and that are not given, are zero.
ModelSource with_biases(const ModelSource& source, std::vector<NamedBias> biases);

// Writes centred.safetensors and centred.spd, which drops every block, into a folder that is there.
struct CentredModel {
  std::string hash;  // model_hash() of the folder it was made of
  int tp = 0;        // ranks it is for
  std::int64_t blocks = 0;
  std::string why;
};
void write_centred(const std::string& folder, const CentredModel& model, std::span<const NamedBias> biases);

}  // namespace weft
