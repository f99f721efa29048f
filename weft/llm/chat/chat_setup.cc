#include "weft/llm/chat/chat_setup.h"

#include <algorithm>

#include "weft/llm/engine/generation_config.h"
#include "weft/llm/spd/spd_model.h"

namespace weft {
namespace {

constexpr std::int64_t kContext = 4096;

}  // namespace

std::shared_ptr<const ChatSetup> load_chat_setup(const ChatSetupOptions& options) {
  auto out = std::make_shared<ChatSetup>();
  out->chat = ChatTemplate::load(options.model);
  if (options.spd.empty()) {
    out->source = open_model(options.model);
    out->modes = all_blocks(out->source.config.blocks, {});
  } else {
    const SpdFile spd = load_spd(options.spd);
    out->source = open_model(options.model, spd, options.ranks);
    out->modes = spd.blocks;
  }
  const ModelConfig& config = out->source.config;
  out->tokenizer = Tokenizer::load(options.model);
  out->generate = options.generate;
  apply_generation_config(load_generation_config(options.model, config.vocab), config, out->tokenizer.get(),
                          options.sampler_given, &out->generate);
  out->capacity = std::min(options.context > 0 ? options.context : kContext, config.max_positions);
  return out;
}

}  // namespace weft
