// Block-to-block distillation: a block whose first synchronisation is dropped is trained to give what the synchronised
// block gives, by the mean square of the difference, on calibration text. Blocks are done one after another; what
// enters a block has come through the blocks before it, so that memory holds two sets of activations and the weights of
// one block.
//
// Every rank trains its own shard (block.h), all of a block's parameters. A finished block is written to the output
// folder before the next one begins, and a run that finds it there goes on behind it: it ends with the same bytes as
// one that was never interrupted. The state is read and written by rank 0 alone; other hosts need not see the folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/llm/distill/activations.h"
#include "weft/llm/model/model.h"
#include "weft/world/world.h"

namespace weft {

// What enters a block while it is trained, and what it is to give.
enum class DistillInputs {
  sync,     // inputs through synchronised original blocks; target: the synchronised original block (the paper's)
  dropped,  // inputs through the blocks as they will run, repaired; target: the synchronised original block on them
  chained,  // inputs through the blocks as they will run; target: what the original model has at this depth
};
std::string_view to_string(DistillInputs inputs);
DistillInputs parse_distill_inputs(std::string_view name);  // throws bad_input

enum class HeadGrouping { no, yes, where_better };  // where_better: if it lowers the block's loss before training

struct BlockTask {
  bool drop = false;    // as it will run
  bool repair = false;  // trained; only where it is dropped
  HeadGrouping grouping = HeadGrouping::no;
};

struct DistillOptions {
  int epochs = 10;
  double lr = 1e-3;  // at its peak: it grows over the first twentieth of the steps and then falls along a cosine
  double clip = 1;   // largest norm of a step's gradients; 0: any
  double weight_decay = 0;
  int batch = 1;  // samples per step
  int threads = 1;
  std::uint64_t seed = 1;
  DistillInputs inputs = DistillInputs::chained;
};

struct DistillJob {
  ModelSource model;                      // its own tensors are used; `repaired` is not looked at
  std::vector<BlockTask> tasks;           // one per block of the model
  std::vector<std::vector<int>> samples;  // tokens, all of one length
  DistillOptions options;
  std::string folder;  // for the state; must exist where rank 0 is
  std::string about;   // what else the result depends on (model, text): a state of another run is refused
};

struct DistilledBlock {
  int block = 0;
  // Mean squares on samples that are not trained on: with the weights as they were (heads grouped or not), and after.
  double loss_before = 0, loss_after = 0;
  bool grouped = false;  // heads were moved
  bool resumed = false;  // taken from the state
  double seconds = 0;
  std::vector<float> weights;  // whole (block_weights.h), on rank 0 alone
};

struct DistillProgress {
  int block = 0, done = 0, of = 0;  // this block; blocks repaired so far, and in all
  int epoch = 0, epochs = 0;
  double loss = 0, loss_before = 0;          // of the steps of this epoch so far; before training
  double seconds_left = 0;                   // 0: not known yet
  const DistilledBlock* finished = nullptr;  // set when a block is done
};

// Collective: every rank of the world with the same job; the world's size is the TP degree. `shared`: the ranks are
// threads of this process, and rank r gives all the same object. `report` is called on rank 0.
class SharedActivations;
std::vector<DistilledBlock> distill(World& world, const DistillJob& job, SharedActivations* shared,
                                    const std::function<void(const DistillProgress&)>& report);

// The activations that ranks of one process share: made once, before they start.
class SharedActivations {
 public:
  SharedActivations(const DistillJob& job, int writers);
  Activations& inputs() { return *sets_[0]; }
  Activations& targets() { return *sets_[1]; }
  Activations& originals() { return *sets_[2]; }  // chained: through original blocks
  void swap_inputs_and_targets() { sets_[0].swap(sets_[1]); }
  int writers() const { return writers_; }

 private:
  int writers_;
  std::unique_ptr<Activations> sets_[3];
};

}  // namespace weft
