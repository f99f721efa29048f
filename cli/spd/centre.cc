// `weft spd centre`: tells every rank of a dropped block what the other ranks' heads say on average. No training.
#include "weft/llm/spd/centre.h"

#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"

#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/progress.h"
#include "cli/spd/spd.h"
#include "cli/spd/windowed_text.h"

namespace weft::cli::spd {
namespace {

struct CentreFlags : TextFlags {
  CentreFlags() { samples = 16; }

  std::string out;
  bool json = false;
};

int run(CentreFlags flags) {
  check_text_flags(&flags);
  const ModelSource source = open_model(flags.model);
  const auto [stream, window, windows] = read_windows(flags, source.config);
  make_out_folder(flags.out);
  Progress progress(Progress::Who::speaks);
  const auto means = measure_head_means(
      source, windows, flags.threads,
      [&](std::string_view what, std::int64_t done, std::int64_t of) { progress.show(what, done, of); });
  progress.show("");
  const std::string why =
      fmt::format("weft spd centre: means of heads over {} windows of {} tokens", windows.size(), window);
  write_centred(flags.out, {model_hash(flags.model), flags.tp, source.config.blocks, why},
                centred_biases(source, means));
  const std::string path = (std::filesystem::path(flags.out) / "centred.spd").string();
  if (flags.json) {
    const nlohmann::ordered_json out{{"model", flags.model},      {"tp", flags.tp}, {"window", window},
                                     {"windows", windows.size()}, {"spd", path},    {"blocks", source.config.blocks}};
    fmt::print("{}", json_line(out));
    return 0;
  }
  fmt::print("{}: all {} blocks dropped, their heads centred on means over {} windows of {} tokens\n", path,
             source.config.blocks, windows.size(), window);
  fmt::print("what it costs:  weft eval --model {} --ranks {} --spd {} --against none --text HELDOUT\n", flags.model,
             flags.tp, path);
  return 0;
}

}  // namespace

void add_centre(CLI::App& group, Run* chosen) {
  auto* command = group.add_subcommand("centre", "help dropped blocks without training: heads centred on their means");
  auto flags = std::make_shared<CentreFlags>();
  command->add_option("--model", flags->model, "a Hugging Face folder")->type_name("DIR")->required();
  add_number(*command, "--tp", &flags->tp, "ranks it is for")->type_name("N")->required();
  command->add_option("--text", flags->text, "calibration text, not the text to measure on")
      ->type_name("FILE")
      ->required();
  command->add_option("--out", flags->out, "folder for centred.spd and centred.safetensors")
      ->type_name("DIR")
      ->required();
  add_window_flags(*command, flags.get(), "windows of the text to use (16)");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Of a head whose mean output is c the values get the bias -c and the output projection W_O c: the same model,\n"
      "but a dropped block's MLP learns from the bias what the other ranks' heads say on average.\n"
      "Example:\n"
      "  weft spd centre --model models/weft-16 --tp 4 --text models/weft-16/calibration.txt --out w16-centred\n"
      "  weft eval --model models/weft-16 --ranks 4 --spd w16-centred/centred.spd --against none \\\n"
      "      --text models/weft-16/heldout.txt");
  command->callback([=] { *chosen = [flags] { return run(*flags); }; });
}

}  // namespace weft::cli::spd
