// What `weft generate` was asked for, and what it comes to: the model, the prompts as tokens, every block's mode.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/llm/engine/generate.h"
#include "weft/llm/model/block_mode.h"
#include "weft/llm/model/model.h"
#include "weft/world/world.h"

#include "cli/rank_flags.h"

namespace weft {
class Tokenizer;
}

namespace weft::cli {

struct GenerateFlags {
  std::string model, random;  // a folder; or the config.json of a model to make up
  RankFlags ranks;
  std::vector<std::string> prompts, prompt_ids;
  std::string prompt_file, prompts_file;
  int max_tokens = 64;
  SamplerOptions sampler;
  std::vector<std::string> stops;
  bool ignore_eos = false;
  std::string spd, wire, drop;
  std::string sync = "fused";
  int panels = 4;
  std::int64_t rows = 512;
  std::string logits;
  bool bandwidth = false, json = false;
};

// Blocks of "0,3-5", or of "50%" or "all": that share of the blocks, the last ones first, since the first suffer most.
std::vector<bool> parse_drop(const std::string& text, std::int64_t blocks);

// All that the ranks need, the same on each. Reads config, tokenizer and prompts; no weights.
struct GenerateTask {
  ModelSource source;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: tokens alone
  std::vector<std::vector<int>> prompts;
  std::vector<std::string> prompt_texts;  // empty strings where prompts are tokens
  std::vector<BlockMode> modes;
  EngineOptions engine;
  GenerateOptions generate;
};

// Weights of a model that is made up only where `whole`: the launcher checks without.
GenerateTask generate_task(const GenerateFlags& flags, int ranks, bool whole);

// Throws bad_input.
void check_generate_flags(const GenerateFlags& flags);

}  // namespace weft::cli
