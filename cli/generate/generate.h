// `weft generate`: what is asked, what it comes to, and what is told.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/llm/engine/generate.h"
#include "weft/llm/model/block_mode.h"
#include "weft/llm/model/model.h"

#include "cli/rank_flags.h"

namespace weft {
class Tokenizer;
}

namespace weft::cli::generate {

struct Flags {
  std::string model, random;      // a folder; or the config.json of a model to make up
  RankFlags ranks{.threads = 0};  // 0 threads: the cores there are, shared
  std::vector<std::string> prompts, prompt_ids;
  std::string prompt_file, prompts_file;
  GenerateOptions options{.max_tokens = 64};
  bool ignore_eos = false;
  bool samples = false;  // --temperature, --top-k or --top-p is given: generation_config.json's do not hold
  std::string spd, wire, drop;
  std::string sync = "fused";
  int panels = 4;
  std::string activations = "f32";
  WeightPlace weights = WeightPlace::mapped;
  std::int64_t rows = 512;
  std::string logits;
  bool bandwidth = false, json = false;
};

// Fills in what depends on the machine and on what flows in: threads, and copies of prompts that come through a pipe.
void complete(Flags* flags);
void check_flags(const Flags& flags);  // throws bad_input

// All that the ranks need, the same on each. Reads config, tokenizer and prompts; no weights.
struct Task {
  ModelSource source;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: tokens alone
  std::vector<std::vector<int>> prompts;
  std::vector<std::string> prompt_texts;  // empty strings where prompts are tokens
  std::int64_t num_prompt_tokens = 0;
  Modes modes;
  EngineOptions engine;
  GenerateOptions generate;
};

// Weights of a model that is made up only where `whole`: the launcher checks without.
Task task_of(const Flags& flags, int ranks, bool whole);

struct Figures {
  int ranks = 1;
  std::string transport, link;
  double load_s = 0, compile_s = 0;  // reading this rank's part of the model; proving plans, allotting memory
  EngineTraffic traffic;             // bytes: of all ranks together
  std::int64_t weight_bytes = 0;     // of this rank, read for every token
  double read_bytes_per_s = 0;       // of this rank's threads, measured; 0: not asked for
};

std::string text_report(const Flags& flags, const Task& task, const GenerateResult& result, const Figures& figures);
std::string json_report(const Flags& flags, const Task& task, const GenerateResult& result, const Figures& figures);

}  // namespace weft::cli::generate
