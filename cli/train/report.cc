// What `weft train` says: a line per step, the end of it, JSON, and the loss as a picture.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"
#include "weft/draw/line_chart.h"

#include "cli/train/train.h"

namespace weft::cli::train {

std::string step_line(const pipeline::StepReport& step, std::int64_t of) {
  return fmt::format("step {:>{}} of {}  loss {:.4f}  gradient {:.3f}  lr {:.2e}  {:.0f} tokens/s", step.step,
                     fmt::formatted_size("{}", of), of, step.loss, step.gradient_norm, step.lr, step.tokens_per_s);
}

std::string metrics_line(const pipeline::StepReport& step) {
  const nlohmann::ordered_json line{
      {"step", step.step}, {"loss", step.loss},       {"gradient_norm", step.gradient_norm},
      {"lr", step.lr},     {"seconds", step.seconds}, {"tokens_per_s", step.tokens_per_s}};
  return json_line(line);
}

std::string to_text(const pipeline::TrainConfig& config, const pipeline::TrainResult& result) {
  std::string out;
  if (result.resumed_at > 0) out += fmt::format("went on from step {}\n", result.resumed_at);
  if (!result.steps.empty())
    out += fmt::format("loss {:.4f} -> {:.4f} in {} steps, {:.0f} tokens/s; activations held per stage:",
                       result.steps.front().loss, result.steps.back().loss, result.steps.size(), result.tokens_per_s);
  for (const double peak : result.peak_activations) out += fmt::format(" {}", peak);
  out += "\n";
  if (!result.model.empty())
    out += fmt::format("Try next: weft generate --model {} --prompt \"The\" --max-tokens 40\n", result.model);
  else if (!config.out.empty())
    out += fmt::format("last checkpoint: {}\n", pipeline::checkpoint_path(config.out, config.steps));
  return out;
}

std::string to_json(const pipeline::TrainConfig& config, const pipeline::TrainResult& result) {
  nlohmann::ordered_json json{{"schedule", to_string(config.schedule)},
                              {"stages", config.num_stages()},
                              {"ranks", config.num_ranks()},
                              {"parameters", num_parameters(config.model)},
                              {"steps", config.steps},
                              {"resumed_at", result.resumed_at},
                              {"throughput", result.tokens_per_s},
                              {"seconds", result.seconds},
                              {"peak_activations", result.peak_activations},
                              {"model", result.model},
                              {"loss", nlohmann::ordered_json::array()}};
  for (const pipeline::StepReport& step : result.steps) json["loss"].push_back(step.loss);
  return json_line(json);
}

std::string loss_picture(const pipeline::TrainResult& result) {
  draw::LineChart chart;
  chart.title = "loss";
  chart.x.label = "step";
  chart.y.label = "mean over the tokens of a step";
  draw::Series series;
  series.name = "training";
  series.marked = false;
  for (const pipeline::StepReport& step : result.steps)
    series.samples.push_back({static_cast<double>(step.step), step.loss});
  chart.series.push_back(std::move(series));
  return draw::line_chart(chart);
}

}  // namespace weft::cli::train
