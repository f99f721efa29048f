// What the rows of a model's ledger lose: perplexity on held-out text with each row's modes, on ranks that are threads of
// this process. What a rank adds to what does not depend on the link, so neither does the loss.
#include <cmath>
#include <span>

#include <fmt/core.h>

#include "weft/io/tokenizer.h"
#include "weft/world/world.h"

#include "cli/model_ledger.h"

namespace weft::cli {
namespace {

constexpr std::int64_t kWindow = 1024;
constexpr std::size_t kWindows = 4;

struct Scored {
  double log_probability = 0;
  std::int64_t tokens = 0;
};

// Windows do not overlap; the first token of each is given, not scored.
Scored score(Engine& engine, std::span<const int> tokens, std::int64_t window) {
  Scored out;
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += static_cast<std::size_t>(window)) {
    const auto size = std::min(tokens.size() - begin, static_cast<std::size_t>(window));
    const std::span<const int> piece = tokens.subspan(begin, size);
    std::vector<int> targets(piece.begin() + 1, piece.end());
    targets.push_back(-1);
    engine.clear(0);
    const Feed feed{.sequence = 0, .tokens = piece};
    engine.forward({&feed, 1});
    for (const TokenScore& s : engine.score(targets)) out.log_probability += s.log_probability;
    out.tokens += static_cast<std::int64_t>(size) - 1;
  }
  return out;
}

}  // namespace

void measure_losses(const ModelTask& task, const std::string& text, const Tokenizer& tokenizer, const Say& say,
                    ModelLedger* ledger) {
  const std::int64_t window = std::min(kWindow, task.source.config.max_positions);
  std::vector<int> tokens = tokenizer.encode(text);
  // Not the prompt's own text, where there is more.
  const std::size_t most = kWindows * static_cast<std::size_t>(window);
  if (tokens.size() > task.prompt.size() + most)
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(task.prompt.size()));
  tokens.resize(std::min(tokens.size(), most));
  const std::vector<ModelForm> forms = forms_of(task);
  std::vector<double> perplexity(forms.size(), 0);
  say("measuring what each row loses");
  World::local(task.ranks, [&](World& world) {
    ModelSource plain = task.source;
    plain.repaired = nullptr;
    for (const bool repaired : {false, true}) {
      if (repaired && !task.source.repaired) continue;
      const Model model(repaired ? task.source : plain, world.rank(), world.size());
      Engine engine(world, model, {.capacity = window, .rows = window});
      for (std::size_t i = 2; i + 1 < forms.size(); ++i) {
        if (forms[i].repaired != repaired) continue;
        engine.set_modes(forms[i].modes);
        const Scored scored = score(engine, tokens, window);
        if (world.rank() != 0) continue;
        perplexity[i] = std::exp(-scored.log_probability / static_cast<double>(scored.tokens));
        ledger->scored = scored.tokens;
      }
    }
  });
  ledger->perplexity = perplexity[2];
  for (std::size_t i = 2; i + 1 < forms.size(); ++i)
    for (ModelRow& row : ledger->rows)
      if (row.name == forms[i].name && i > 2) row.loss = perplexity[i] / perplexity[2] - 1;
  say("");
}

}  // namespace weft::cli
