// `weft quantize`: a model's folder to a GGUF file of 4 to 8 bits per weight.
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/names.h"
#include "weft/llm/quantise/quantise_model.h"

#include "cli/command.h"
#include "cli/out_file.h"
#include "cli/progress.h"

namespace weft::cli {
namespace quantize {
namespace {

struct Flags {
  std::string model, type = "q8_0", calibrate, out;
  int threads = 0;
  bool json = false;
};

// The dtypes by their names, and the mix of two of them.
enum class Type { q8_0, q4_0, q4_k, q6_k, q4_k_m };

QuantiseOptions options_of(const std::string& type) {
  constexpr Names<Type, 5> kTypes{{{Type::q8_0, "q8_0"},
                                   {Type::q4_0, "q4_0"},
                                   {Type::q4_k, "q4_k"},
                                   {Type::q6_k, "q6_k"},
                                   {Type::q4_k_m, "q4_k_m"}}};
  constexpr Dtype kDtypes[] = {Dtype::q8_0, Dtype::q4_0, Dtype::q4_k, Dtype::q6_k, Dtype::q4_k};
  const Type asked = parse_name(kTypes, "type", type);
  return {.type = kDtypes[at(asked)], .mix = asked == Type::q4_k_m ? BitMix::more : BitMix::even};
}

int run(const Flags& flags) {
  if (flags.model.empty()) bad_input("no model is given; use `weft quantize DIR --out FILE.gguf`");
  QuantiseReport report;
  {
    Progress progress(Progress::Who::speaks);
    QuantiseOptions options = options_of(flags.type);
    options.calibrate = flags.calibrate, options.threads = flags.threads;
    if (flags.threads < 0 || flags.threads > 4096) bad_input("--threads is {}; use 1 to 4096", flags.threads);
    if (flags.threads == 0) options.threads = std::max(1, static_cast<int>(usable_cores()));
    options.progress = [&](std::int64_t done, std::int64_t of) { progress.show("tensors", done, of); };
    report = quantise_model(flags.model, flags.out, options);
  }
  if (flags.json) {
    fmt::print("{}", json_line(nlohmann::ordered_json{{"file", flags.out},
                                                      {"type", flags.type},
                                                      {"tensors", report.tensors},
                                                      {"bytes_read", report.bytes_read},
                                                      {"bytes_written", report.bytes_written},
                                                      {"bits_per_weight", report.bits_per_weight},
                                                      {"has_tokenizer", report.has_tokenizer}}));
    return 0;
  }
  std::string types;
  for (const auto& [type, count] : report.tensors)
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, type);
  fmt::print("{}: {:.1f} MB of tensors from {:.1f} MB ({}), {:.2f} bits per weight\n", flags.out,
             1e-6 * static_cast<double>(report.bytes_written), 1e-6 * static_cast<double>(report.bytes_read), types,
             report.bits_per_weight);
  if (!report.has_tokenizer)
    fmt::print("  its tokenizer is none that llama.cpp has lists for: Weft reads texts, it does not\n");
  fmt::print("  try it: weft generate --model {} --prompt 'Once'\n", flags.out);
  return 0;
}

}  // namespace
}  // namespace quantize

void add_quantize(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("quantize", "write a model's folder as a GGUF file of 4 to 8 bits per weight");
  auto flags = std::make_shared<quantize::Flags>();
  command->add_option("model", flags->model, "the model's folder, with config.json and safetensors; also as --model")
      ->type_name("DIR");
  command->add_option("--model", flags->model, "as other commands have it")->group("");  // not shown a second time
  command
      ->add_option(
          "--type", flags->type,
          "q8_0 (8.5 bits), q6_k (6.6), q4_k_m (q4_k, with q6_k where it helps most), q4_k (4.5) or q4_0 (4.5)")
      ->type_name("TYPE")
      ->capture_default_str();
  command
      ->add_option("--calibrate", flags->calibrate,
                   "round weights so that products stay near on this text: slower, and more of the model is kept")
      ->type_name("FILE");
  add_out_file(*command, "--out", &flags->out, "the file to write")->required();
  add_number(*command, "--threads", &flags->threads, "threads (all cores)")->type_name("T");
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->footer(
      "Example:\n  weft quantize models/weft-16 --type q4_k --out weft-16-q4_k.gguf\n"
      "  weft quantize models/weft-16 --type q4_k_m --calibrate models/weft-16/calibration.txt --out weft-16.gguf");
  command->callback([=] { *chosen = [flags] { return quantize::run(*flags); }; });
}

}  // namespace weft::cli
