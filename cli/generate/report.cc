// What `weft generate` tells: text while it is made, then where the time and the bytes went.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/base/units.h"

#include "cli/generate/generate.h"

namespace weft::cli::generate {
namespace {

std::size_t num_tokens(const GenerateResult& result) {
  std::size_t count = 0;
  for (const GeneratedText& text : result.texts) count += text.tokens.size();
  return count;
}

double weight_bytes_per_s(const GenerateResult& result, const Figures& figures) {
  const double seconds = result.seconds_per_token();
  return seconds > 0 ? figures.weight_bytes / seconds : 0;
}

}  // namespace

std::string text_report(const Flags& flags, const Task& task, const GenerateResult& result, const Figures& figures) {
  const EngineTraffic& t = figures.traffic;
  std::string out =
      fmt::format("time to first token  {:.2f} ms ({} tokens of {} prompt{})\n", result.first_token_s * 1e3,
                  task.num_prompt_tokens, task.prompts.size(), task.prompts.size() == 1 ? "" : "s");
  out += fmt::format("time per token       {:.3f} ms ({} tokens in all)\n", result.seconds_per_token() * 1e3,
                     num_tokens(result));
  out +=
      fmt::format("sent by all ranks    {} ({} by blocks, {} by the head)\n",
                  format_bytes(t.block_bytes + t.head_bytes), format_bytes(t.block_bytes), format_bytes(t.head_bytes));
  out += fmt::format("synchronisations     {} made, {} dropped ({} rank{}, {}; blocks: {})\n", t.syncs_made,
                     t.syncs_dropped, figures.ranks, figures.ranks == 1 ? "" : "s", flags.sync, summary(task.modes));
  if (figures.read_bytes_per_s > 0)
    out += fmt::format("weights read         {}/s, {:.2f} of the {}/s that {} thread{} of a rank read{}\n",
                       format_bytes(weight_bytes_per_s(result, figures)),
                       weight_bytes_per_s(result, figures) / figures.read_bytes_per_s,
                       format_bytes(figures.read_bytes_per_s), flags.ranks.threads, flags.ranks.threads == 1 ? "" : "s",
                       flags.ranks.threads == 1 ? "s" : "");
  return out;
}

std::string json_report(const Flags& flags, const Task& task, const GenerateResult& result, const Figures& figures) {
  const EngineTraffic& t = figures.traffic;
  nlohmann::ordered_json out;
  out["text"] = result.texts[0].text;
  out["tokens"] = result.texts[0].tokens;
  out["ending"] = to_string(result.texts[0].ending);
  if (result.texts.size() > 1) {
    out["texts"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < result.texts.size(); ++i)
      out["texts"].push_back({{"prompt_tokens", task.prompts[i].size()},
                              {"text", result.texts[i].text},
                              {"tokens", result.texts[i].tokens},
                              {"ending", to_string(result.texts[i].ending)}});
  }
  out["prompt_tokens"] = task.num_prompt_tokens;
  out["ttft_ms"] = result.first_token_s * 1e3;
  out["ms_per_token"] = result.seconds_per_token() * 1e3;
  out["sync_points"] = t.syncs_made;
  out["syncs_dropped"] = t.syncs_dropped;
  out["bytes_sent"] = t.block_bytes + t.head_bytes;
  out["block_bytes"] = t.block_bytes;
  out["head_bytes"] = t.head_bytes;
  out["ranks"] = figures.ranks;
  out["threads"] = flags.ranks.threads;
  out["transport"] = figures.transport;
  out["link"] = figures.link;
  out["sync"] = flags.sync;
  out["blocks"] = nlohmann::ordered_json::array();
  for (const BlockMode& mode : task.modes) out["blocks"].push_back(to_string(mode));
  out["load_ms"] = figures.load_s * 1e3;
  out["compile_ms"] = figures.compile_s * 1e3;
  out["projection_ms"] = t.block_op_s * 1e3;
  out["forward_ms"] = t.forward_s * 1e3;
  out["head_ms"] = t.head_s * 1e3;
  out["weight_bytes_per_token"] = figures.weight_bytes;
  out["weight_gbytes_per_s"] = weight_bytes_per_s(result, figures) * 1e-9;
  if (figures.read_bytes_per_s > 0) {
    out["read_gbytes_per_s"] = figures.read_bytes_per_s * 1e-9;
    out["read_share"] = weight_bytes_per_s(result, figures) / figures.read_bytes_per_s;
  }
  return json_line(out);
}

}  // namespace weft::cli::generate
