// What the rows of a model's ledger lose: perplexity on held-out text with each row's modes, on ranks that are threads of
// this process. What a rank adds to what does not depend on the link, so neither does the loss.
#include <span>

#include "weft/llm/eval/eval.h"
#include "weft/world/world.h"

#include "cli/ledger/model_ledger.h"

namespace weft::cli {
namespace {

constexpr std::int64_t kWindows = 6;  // of held-out text
constexpr std::size_t kFused = 2;     // among the forms: the model as it is

}  // namespace

void measure_losses(const ModelTask& task, const std::string& text, const Tokenizer& tokenizer, const Say& say,
                    ModelLedger* ledger) {
  const std::int64_t length = window_length(task.source.config, 0);
  const std::vector<int> stream = text_stream(tokenizer, text);
  const std::vector<TokenWindow> windows = cut_windows(stream, length, kWindows);
  const std::vector<ModelForm> forms = forms_of(task);
  std::vector<std::vector<WindowScore>> scores(forms.size());
  say("measuring what each row loses");
  World::local(task.ranks, [&](World& world) {
    ModelSource plain = task.source;
    plain.repaired = nullptr;
    for (const bool repaired : {false, true}) {
      if (repaired && !task.source.repaired) continue;
      const Model model(repaired ? task.source : plain, world.rank(), world.size());
      Engine engine(world, model, eval_engine(task.source.config, length, length));
      for (std::size_t i = kFused; i + 1 < forms.size(); ++i) {
        if (forms[i].repaired != repaired) continue;
        engine.set_modes(forms[i].modes);
        const std::vector<WindowScore> scored = score_windows(engine, windows);
        if (world.rank() == 0) scores[i] = scored;
      }
    }
  });
  ledger->perplexity = perplexity(scores[kFused]);
  for (const WindowScore& score : scores[kFused]) ledger->scored += score.tokens;
  for (std::size_t i = kFused + 1; i + 1 < forms.size(); ++i)
    for (ModelRow& row : ledger->rows)
      if (row.name == forms[i].name) row.loss = paired_loss(scores[kFused], scores[i]);
  say("");
}

}  // namespace weft::cli
