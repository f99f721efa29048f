// `weft spd ablate`: the paper's ablation of the order of sums. One block is dropped with its partial sums, or its bias, on
// the right and on the wrong side of the all-reduce; perplexity of each.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/eval/eval.h"
#include "weft/llm/spd/ablation.h"

#include "cli/progress.h"
#include "cli/spd/spd.h"
#include "cli/table.h"

namespace weft::cli {
namespace {

struct AblateFlags {
  std::string model, text;
  int tp = 4, threads = 0;
  std::int64_t block = 0, samples = 8, window = 0;
  bool all = false, json = false;
};

struct Ablated {
  bool has_biases = false;            // the model's own
  std::vector<AblationRow> partials;  // sync, dropped, partial_after
  std::vector<AblationRow> biases;    // sync, dropped, bias_before
  std::int64_t window = 0, windows = 0;
};

using Ordered = nlohmann::ordered_json;

Ablated ablate(const AblateFlags& flags, Progress& progress) {
  const ModelSource source = open_model(flags.model);
  Ablated out;
  out.has_biases = source.config.attention_bias;
  out.window = window_length(source.config, flags.window);
  const auto tokenizer = Tokenizer::load(flags.model);
  const std::vector<int> stream = text_stream(*tokenizer, read_text_file(flags.text, std::size_t{1} << 30));
  const std::vector<TokenWindow> windows = cut_windows(stream, out.window, flags.samples);
  out.windows = std::ssize(windows);
  const auto show = [&](const char* what) {
    return [&progress, what](std::int64_t done, std::int64_t of) {
      progress.show(what, static_cast<int>(done), static_cast<int>(of));
    };
  };
  SimulatedRanks plain(source, flags.tp, out.window - 1, flags.threads);
  constexpr BlockOrder kPartials[] = {BlockOrder::sync, BlockOrder::dropped, BlockOrder::partial_after};
  constexpr BlockOrder kBiases[] = {BlockOrder::sync, BlockOrder::dropped, BlockOrder::bias_before};
  out.partials = run_orders(plain, flags.block, std::span(kPartials).first(1), windows, show("means of heads"));
  const auto means = plain.take_head_means();
  for (AblationRow& row :
       run_orders(plain, flags.block, std::span(kPartials).subspan(1), windows, show("partial sums")))
    out.partials.push_back(std::move(row));
  if (out.has_biases) {
    out.biases = run_orders(plain, flags.block, kBiases, windows, show("biases"));
  } else {
    SimulatedRanks biased(with_centred_heads(source, means), flags.tp, out.window - 1, flags.threads);
    out.biases = run_orders(biased, flags.block, kBiases, windows, show("biases"));
  }
  return out;
}

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
  return aligned(table, Last::number);
}

int run(AblateFlags flags) {
  if (flags.tp < 2 || flags.tp > 64) bad_input("--tp is {}; use 2 to 64", flags.tp);
  if (flags.samples < 1) bad_input("--samples is {}; use 1 or more", flags.samples);
  if (flags.threads == 0) flags.threads = std::max(1, static_cast<int>(std::floor(usable_cores())));
  if (flags.all) flags.block = kAllBlocks;
  Progress progress(Progress::Who::speaks);
  const Ablated found = ablate(flags, progress);
  progress.show("");
  if (flags.json) {
    const Ordered out{{"model", flags.model},
                      {"tp", flags.tp},
                      {"block", flags.all ? Ordered("all") : Ordered(flags.block)},
                      {"window", found.window},
                      {"windows", found.windows},
                      {"biases_of", found.has_biases ? "the model" : "centred heads"},
                      {"partial_sums", rows_json(found.partials)},
                      {"biases", rows_json(found.biases)}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print("{}, {} at {} ranks, {} windows of {} tokens: perplexity\n\n{}\n{}\n{}", flags.model,
             flags.all ? "all blocks" : fmt::format("block {}", flags.block), flags.tp, found.windows, found.window,
             rows_text(found.partials, false),
             found.has_biases ? "the model's biases:"
                              : "the same model with biases (heads centred on their mean, which becomes the bias):",
             rows_text(found.biases, true));
  return 0;
}

}  // namespace

void add_spd_ablate(CLI::App& spd, Run* chosen) {
  auto* command =
      spd.add_subcommand("ablate", "why the sums of a dropped block have their order: the wrong ones measured");
  auto flags = std::make_shared<AblateFlags>();
  command->add_option("--model", flags->model, "a Hugging Face folder")->type_name("DIR")->required();
  command->add_option("--text", flags->text, "text for perplexity")->type_name("FILE")->required();
  command->add_option("--tp", flags->tp, "ranks, computed one after another in this process (4)")->type_name("N");
  command->add_option("--block", flags->block, "the block that is dropped (0)")->type_name("B");
  command->add_flag("--all", flags->all, "all blocks are dropped, not one");
  command->add_option("--samples", flags->samples, "windows (8)")->type_name("N");
  command->add_option("--window", flags->window, "tokens of a window (the model's length, 2048 at most)")
      ->type_name("TOKENS");
  command->add_option("--threads", flags->threads, "threads (the cores there are)")->type_name("T");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer("Example:\n  weft spd ablate --model models/weft-16 --text models/weft-16/heldout.txt");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli
