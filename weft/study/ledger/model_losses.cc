// What the rows of a model's ledger lose: perplexity on held-out text with each row's modes, on ranks that are threads
// of this process. What a rank adds to what does not depend on the link, so neither does the loss.
#include <map>
#include <span>

#include "weft/llm/eval/eval.h"
#include "weft/study/ledger/model_ledger.h"
#include "weft/world/world.h"

namespace weft {
namespace {

constexpr std::int64_t kWindows = 6;  // of held-out text

}  // namespace

void measure_losses(const ModelTask& task, const Tokenizer& tokenizer, const Say& say, ModelLedger* ledger) {
  const std::int64_t length = window_length(task.source.config, 0);
  const std::vector<int> stream = text_stream(tokenizer, task_text(task));
  const std::vector<TokenWindow> windows = cut_windows(stream, length, kWindows);
  std::map<std::string, std::vector<WindowScore>> scores;
  say("measuring what each row loses");
  World::local(task.ranks, [&](World& world) {
    for (const bool repaired : {false, true}) {
      if (repaired && !task.source.repaired) continue;
      ModelSource source = task.source;
      if (!repaired) source.repaired = nullptr;
      const Model model(source, world.rank(), world.size());
      Engine engine(world, model, eval_engine(task.source.config, length, length));
      for (const ModelForm& form : forms_of(task)) {
        if (form.repaired != repaired || form.sync != Style::fused) continue;
        engine.set_modes(form.modes);
        std::vector<WindowScore> scored = score_windows(engine, windows);
        if (world.rank() == 0) scores[form.name] = std::move(scored);
      }
    }
  });
  const std::vector<WindowScore>& own = scores["fused"];
  ledger->perplexity = perplexity(own);
  for (const WindowScore& score : own) ledger->scored += score.tokens;
  for (const auto& [name, scored] : scores)
    if (name != "fused") ledger->table.find(name)->loss = paired_loss(own, scored);
  say("");
}

}  // namespace weft
