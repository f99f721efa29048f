#include "weft/study/schedule/preset.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/cluster/data_file.h"
#include "weft/reshard/manifest_words.h"
#include "weft/schedule/compare.h"
#include "weft/study/reshard/planned.h"

namespace weft {
namespace {

constexpr std::string_view kPresetFolder = "workloads/pipeline";
constexpr double kMaxFlopsRate = 1e18;
constexpr std::int64_t kMaxMicroBatchesOfPreset = 1 << 12;

// What comes back: the gradient of every tensor, from where it went to where it came from.
Reshard reversed(const Reshard& reshard) {
  Reshard out = reshard;
  for (Transfer& transfer : out.transfers) {
    if (transfer.parts.size() != 1)
      bad_input("tensor \"{}\" is made of {} parts; between stages give tensors of one", transfer.destination.name,
                transfer.parts.size());
    std::swap(transfer.parts.front().tensor, transfer.destination);
  }
  return out;
}

// Of one transfer, where every stage does the same.
pipeline::Costs costs_of(const PipelinePreset& preset, double forward_s, double backward_s,
                         pipeline::Transfers transfers) {
  pipeline::Costs costs{.transfers = transfers};
  for (const double compute_s : preset.forward_s)
    costs.stages.push_back({.forward_s = compute_s,
                            .backward_input_s = preset.backward / 2 * compute_s,
                            .backward_weight_s = preset.backward / 2 * compute_s,
                            .recompute_s = compute_s,
                            .send_forward_s = forward_s,
                            .send_backward_s = backward_s});
  return costs;
}

PresetRow row_of(std::string name, const pipeline::Schedule& schedule, const pipeline::Costs& costs) {
  const pipeline::Compared all = pipeline::compared(schedule, costs);
  return {std::move(name), schedule, costs, all.timing.makespan_s, all.timing.bubble, all.verdict.peak()};
}

}  // namespace

PipelinePreset parse_preset(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where, {.bytes = kMaxDataFileBytes});
  check_fields(
      object,
      {"name", "note", "source", "tensors", "micro_batches", "params", "forward_flops", "flops_per_s", "backward"},
      where);
  PipelinePreset preset;
  preset.name = get_string(object, "name", where);
  preset.source = get_string(object, "source", where);
  preset.micro_batches = get_small(object, "micro_batches", where, 1, kMaxMicroBatchesOfPreset);
  preset.backward = get_double(object, "backward", where, 0, 100);
  preset.tensors = load_manifest(get_string(object, "tensors", where));
  Params params = preset.tensors.params;
  for (const auto& item : get_object(object, "params", where).items())
    params[item.key()] = get_int(object["params"], item.key(), where);
  const double rate = get_double(object, "flops_per_s", where, 1, kMaxFlopsRate);
  const double devices = preset.tensors.reshard.placements.front().ranks.size();
  const ManifestWords words(params);
  for (const Json& value : get_array(object, "forward_flops", where)) {
    if (!value.is_string()) bad_input("{}: \"forward_flops\" has {}; give expressions in strings", where, value.dump());
    const std::int64_t flops = words.eval(value.get<std::string>(), fmt::format("{}: \"forward_flops\"", where));
    if (flops < 1) bad_input("{}: \"forward_flops\" has {}, which is {}; give 1 or more", where, value.dump(), flops);
    preset.forward_s.push_back(flops / devices / rate);
  }
  if (preset.num_stages() < 2)
    bad_input("{}: \"forward_flops\" has {} items; give one per stage, at least 2", where, preset.num_stages());
  return preset;
}

PipelinePreset load_preset(const std::string& name_or_path) {
  const std::string path = find_data_file(kPresetFolder, "pipeline", name_or_path);
  return parse_preset(read_text_file(path, kMaxDataFileBytes), path);
}

std::vector<std::string> preset_names() { return data_file_names(kPresetFolder); }

double transfer_seconds(const PipelinePreset& preset, Strategy strategy, bool forward) {
  ReshardOptions options;
  options.schedule.strategy = strategy;
  const Reshard reshard = forward ? preset.tensors.reshard : reversed(preset.tensors.reshard);
  return plan_reshard(reshard, preset.tensors.network, options).predicted_s();
}

PresetTable preset_table(const PipelinePreset& preset) {
  using pipeline::Backward, pipeline::Kind, pipeline::Transfers;
  PresetTable table;
  const auto schedule = [&](Kind kind, Backward backward) {
    return build(pipeline::BuildOptions{
        .kind = kind, .stages = preset.num_stages(), .micro_batches = preset.micro_batches, .backward = backward});
  };
  pipeline::Costs overlapped;
  for (const Strategy strategy : {Strategy::send_recv, Strategy::local_allgather, Strategy::broadcast}) {
    const double forward = transfer_seconds(preset, strategy, true), back = transfer_seconds(preset, strategy, false);
    table.rows.push_back(row_of(std::string(to_string(strategy)), schedule(Kind::one_f_one_b, Backward::whole),
                                costs_of(preset, forward, back, Transfers::blocking)));
    overlapped = costs_of(preset, forward, back, Transfers::overlapped);
  }
  table.rows.push_back(row_of("broadcast + overlap", schedule(Kind::one_f_one_b, Backward::split), overlapped));
  table.rows.push_back(
      row_of("broadcast + overlap + eager_1f1b", schedule(Kind::eager_1f1b, Backward::split), overlapped));
  const pipeline::SearchResult found =
      search(overlapped,
             {.micro_batches = preset.micro_batches, .chunks = 1, .memory = static_cast<int>(table.rows.back().peak)});
  table.rows.push_back(row_of("broadcast + overlap + search", found.schedule, overlapped));
  table.bound = found.bound;
  const double latency = preset.tensors.network.latency_s;
  table.rows.push_back(row_of("one element", schedule(Kind::eager_1f1b, Backward::split),
                              costs_of(preset, latency, latency, Transfers::overlapped)));
  return table;
}

}  // namespace weft
