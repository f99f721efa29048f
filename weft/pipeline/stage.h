// What one rank computes: its layers, forward and backward, for one micro-batch at a time. Values come from and go to
// other stages through the Exchange, each as soon as it exists; partial sums of tensor-parallel ranks are added up by a
// RankSum. Activations of a micro-batch live from its forward to the end of its backward in a slot of their own: how
// many there are at once is counted here, and not taken from the schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/nn/rank_sum.h"
#include "weft/pipeline/exchange.h"
#include "weft/pipeline/parameters.h"

namespace weft::pipeline {

// What the work of a micro-batch takes at least: a stage that is quicker sleeps before it sends what it has made. So a
// small model on few cores shows what large stages on many would do. 0: as quick as it is.
struct ComputePace {
  double forward_s = 0, backward_s = 0;  // half of a backward is for the weights
};

struct StageOptions {
  GptShape model;
  StagePlace place;
  std::int64_t sequences = 1;  // of a micro-batch, on this rank
  float scale = 1;             // of the loss: 1 / tokens of a whole step
  ComputePace pace;
};

class Stage {
 public:
  // `rows_sum` is null where the stage has one tensor-parallel rank. All pointers outlive the stage.
  Stage(const StageOptions& options, const ParameterList* parameters, Exchange* exchange, Pump* pump, RankSum* rows_sum,
        ThreadPool* pool);

  struct Tokens {
    std::vector<int> inputs, targets;  // of this rank's sequences, one after the other
  };

  // Returns the sum of the losses of its tokens; 0 unless this is the last stage.
  double forward(std::int64_t g, const float* weights, Tokens tokens);
  // Gradients are added to. `layer_done(layer)` is called when those of a block are all there for this micro-batch:
  // with the number of layers for final norm and head, then block by block from the last, and with -1 for the
  // embedding.
  void backward(std::int64_t g, const float* weights, float* gradients, BackwardPart part,
                const std::function<void(std::int64_t)>& layer_done);

  int peak_activations() const { return peak_; }
  std::int64_t rows() const { return shape_.rows(); }

 private:
  struct Layer {
    std::vector<float> sum;           // x + skip, where there is one
    std::vector<float> x1, received;  // after attention; a value that was widened
    BlockActivations block;
  };
  struct Slot {
    std::int64_t g = -1;  // -1: free
    Tokens tokens;
    std::vector<const float*> values;     // first_layer .. end_layer
    std::vector<std::vector<float>> own;  // the same, where this stage made them
    std::vector<Layer> layers;
    std::vector<float> normed, logits;  // last stage
    NormRows norm_rows;
  };

  Slot& open_slot(std::int64_t g);
  Slot& slot_of(std::int64_t g);
  bool is_first() const { return options_.place.first_layer == 0; }
  bool is_last() const { return options_.place.end_layer == options_.model.layers; }
  std::int64_t values_count() const { return rows() * options_.model.hidden; }
  float* own_value(Slot& slot, std::int64_t value);
  const float* enter(Slot& slot, std::int64_t layer);
  void block_forward(Slot& slot, std::int64_t layer, const float* weights);
  double head_forward(Slot& slot, const float* weights);
  void head_backward(Slot& slot, const float* weights, float* gradients, BackwardPart part);
  void block_backward(Slot& slot, std::int64_t layer, const float* weights, float* gradients, BackwardPart part);
  void add_others(Slot& slot, std::int64_t layer);
  void send_gradients(Slot& slot, std::int64_t layer);
  double busy_s() const;
  void dwell(double begin_s, double seconds) const;
  const float* summed(const float* partial);
  Norm final_norm(const float* weights) const;

  StageOptions options_;
  const ParameterList* parameters_;
  Exchange* exchange_;
  Pump* pump_;
  RankSum* rows_sum_;
  ThreadPool* pool_;
  BlockShape shape_;
  RotaryTable rotary_;
  Products products_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<float> partial_;                // a sum over tensor-parallel ranks goes in here
  std::vector<std::vector<float>> gradient_;  // of values first_layer .. end_layer, of the micro-batch in backward
  std::vector<std::vector<float>> middle_;    // per block: of x1
  std::vector<float> normed_gradient_;
  int peak_ = 0;
};

}  // namespace weft::pipeline
