// `weft spd ablate`: the paper's ablation of the order of sums. One block is dropped with its partial sums, or its
// bias, on the right and on the wrong side of the all-reduce; perplexity of each.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/draw/text_table.h"
#include "weft/llm/spd/ablation.h"

#include "cli/flag_values.h"
#include "cli/progress.h"
#include "cli/spd/spd.h"
#include "cli/spd/windowed_text.h"

namespace weft::cli::spd {
namespace {

struct AblateFlags : TextFlags {
  std::int64_t block = 0;
  bool all = false, json = false;
};

using Ordered = nlohmann::ordered_json;

std::string words_of(BlockOrder order, bool of_bias) {
  switch (order) {
    case BlockOrder::sync:
      return "synchronised";
    case BlockOrder::dropped:
      return of_bias ? "dropped, bias added after the all-reduce (right)"
                     : "dropped, Y_i summed by the all-reduce (right)";
    case BlockOrder::partial_after:
      return "dropped, each rank adds its own Y_i after it (wrong)";
    case BlockOrder::bias_before:
      return "dropped, bias summed by the all-reduce (wrong)";
  }
  return "";
}

Ordered rows_json(const std::vector<AblationRow>& rows) {
  Ordered out = Ordered::array();
  for (const AblationRow& row : rows)
    out.push_back({{"order", to_string(row.order)},
                   {"perplexity", perplexity(row.windows)},
                   {"loss", paired_loss(rows[0].windows, row.windows).loss}});
  return out;
}

std::string rows_text(const std::vector<AblationRow>& rows, bool of_bias) {
  std::vector<std::vector<std::string>> table;
  for (const AblationRow& row : rows)
    table.push_back({words_of(row.order, of_bias), fmt::format("{:.3f}", perplexity(row.windows)),
                     fmt::format("{:+.2f} %", 100 * paired_loss(rows[0].windows, row.windows).loss)});
  return draw::aligned(table, draw::Last::number);
}

int run(AblateFlags flags) {
  check_text_flags(&flags);
  const ModelSource source = open_model(flags.model);
  const auto [stream, window, windows] = read_windows(flags, source.config);
  Progress progress(Progress::Who::speaks);
  const AblationOptions options{flags.tp, flags.threads, flags.all ? kAllBlocks : flags.block};
  const Ablation found =
      ablate(source, windows, options,
             [&](std::string_view what, std::int64_t done, std::int64_t of) { progress.show(what, done, of); });
  progress.show("");
  if (flags.json) {
    const Ordered out{{"model", flags.model},
                      {"tp", flags.tp},
                      {"block", flags.all ? Ordered("all") : Ordered(flags.block)},
                      {"window", window},
                      {"windows", windows.size()},
                      {"biases_of", found.has_biases ? "the model" : "centred heads"},
                      {"partial_sums", rows_json(found.partials)},
                      {"biases", rows_json(found.biases)}};
    fmt::print("{}", json_line(out));
    return 0;
  }
  fmt::print("{}, {} at {} ranks, {} windows of {} tokens: perplexity\n\n{}\n{}\n{}", flags.model,
             flags.all ? "all blocks" : fmt::format("block {}", flags.block), flags.tp, windows.size(), window,
             rows_text(found.partials, false),
             found.has_biases ? "the model's biases:"
                              : "the same model with biases (heads centred on their mean, which becomes the bias):",
             rows_text(found.biases, true));
  return 0;
}

}  // namespace

void add_ablate(CLI::App& group, Run* chosen) {
  auto* command =
      group.add_subcommand("ablate", "why the sums of a dropped block have their order: the wrong ones measured");
  auto flags = std::make_shared<AblateFlags>();
  command->add_option("--model", flags->model, "a Hugging Face folder")->type_name("DIR")->required();
  command->add_option("--text", flags->text, "text for perplexity")->type_name("FILE")->required();
  add_number(*command, "--tp", &flags->tp, "ranks, computed one after another in this process (4)")->type_name("N");
  add_number(*command, "--block", &flags->block, "the block that is dropped (0)")->type_name("B");
  command->add_flag("--all", flags->all, "all blocks are dropped, not one");
  add_window_flags(*command, flags.get(), "windows (8)");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer("Example:\n  weft spd ablate --model models/weft-16 --text models/weft-16/heldout.txt");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli::spd
