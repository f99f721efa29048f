// What is trained, on what, how and where: the file that `weft train --config` reads, as a value.
//
//   "model"      {"kind": "gpt" or "u_transformer", "hidden", "layers", "heads", "kv_heads", "mlp", "sequence"}
//   "data"       {"text": "FILE" or ["FILE", ..], "tokenizer": "DIR"}
//   "training"   {"steps", "batch" (sequences per step), "micro_batches", "lr", "warm_up", "last_lr", "weight_decay",
//                 "beta1", "beta2", "clip", "seed", "dtype": "f32" or "bf16"}
//   "mesh"       {"stages": 2, "data": 1, "tensor": 1}, or {"stages": [{"layers": 5, "data": 2, "tensor": 1}, ..]}
//   "schedule"   "gpipe", "1f1b" or "eager_1f1b"
//   "transfers"  {"strategy": "auto", "send_recv", .., "overlap": true, "delay_weights": true, "stream": true}
//   "out"        folder for checkpoints and the trained model; "checkpoint_every": steps between checkpoints, 0: none
//
// Only "model" and "data" must be there. Paths are those of the program's own folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/json.h"
#include "weft/nn/adamw.h"
#include "weft/nn/gpt.h"
#include "weft/reshard/schedule/schedule.h"
#include "weft/schedule/build.h"

namespace weft::pipeline {

// What computes with which bits. bf16: products see weights rounded to bf16, and what stages send each other is bf16;
// sums, gradients and the optimiser's weights are f32.
enum class Precision { f32, bf16 };

struct StageSize {
  std::int64_t layers = 0;  // 0: an even share
  int data = 1, tensor = 1;
  int ranks() const { return data * tensor; }
};

enum class Messages {
  whole,
  one_element  // for a bound: everything is computed, and of every transfer one element is sent. Losses mean nothing
};

struct TransferOptions {
  Strategy strategy = Strategy::automatic;
  bool overlap = true;        // else a stage neither computes while it sends nor while it receives
  bool delay_weights = true;  // with overlap: gradients leave before the gradients of weights are computed
  bool stream = true;         // with overlap: the last product of a stage leaves tile by tile, as it is made
  Messages messages = Messages::whole;
};

struct TrainConfig {
  std::string file;  // where it was read from, for messages
  GptShape model;    // vocab: 0 until the tokenizer is known
  std::vector<std::string> texts;
  std::string tokenizer;
  std::int64_t steps = 100, batch = 8;
  int micro_batches = 1;
  LearningRate lr;  // its steps are `steps`
  AdamWOptions adamw{.beta2 = 0.95f, .weight_decay = 0.1f};
  double clip = 1;  // largest norm of a step's gradients; 0: any
  std::uint64_t seed = 1;
  Precision precision = Precision::f32;
  std::vector<StageSize> stages{{}};
  Kind schedule = Kind::one_f_one_b;
  TransferOptions transfers;
  std::string out = "trained";
  std::int64_t checkpoint_every = 0;

  int num_stages() const { return int_size(stages); }
  int num_ranks() const;
  std::int64_t sequences() const { return batch / micro_batches; }  // of a micro-batch
};

// Throws bad_input naming file, field, value and remedy.
TrainConfig load_train_config(const std::string& path);
TrainConfig parse_train_config(const Json& json, const std::string& where);

// What a file alone cannot tell: throws bad_input where model, batch and mesh do not fit each other, and names the
// nearest mesh that would. Fills in the layers of stages that name none.
void settle(TrainConfig* config);

}  // namespace weft::pipeline
