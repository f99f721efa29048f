// One table of a chip's parameters serves the reader of files, sweeps and the page on sensitivity.
#include "weft/sim/chip/chip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/units.h"
#include "weft/cluster/data_file.h"

namespace weft::sim {
namespace {

constexpr std::string_view kFolder = "clusters/chips";

enum class Kind { count, number, bytes, rate, duration };
using Place = std::variant<int Chip::*, std::int64_t Chip::*, double Chip::*>;

struct Field {
  std::string_view key;
  Kind kind;
  Place place;
  double min, max;  // both allowed
  bool free = false;
};

const std::array kFields{
    Field{"cus", Kind::count, &Chip::cus, 1, 4096},
    Field{"clock_hz", Kind::number, &Chip::clock_hz, 1e6, 1e11},
    Field{"flops_per_cycle", Kind::number, &Chip::flops_per_cycle, 1, 1e6},
    Field{"gemm_efficiency", Kind::number, &Chip::gemm_efficiency, 0.01, 1, true},
    Field{"tile_rows", Kind::count, &Chip::tile_rows, 1, 4096},
    Field{"tile_cols", Kind::count, &Chip::tile_cols, 1, 4096},
    Field{"tile_k", Kind::count, &Chip::tile_k, 1, 4096},
    Field{"prefetch_slices", Kind::count, &Chip::prefetch_slices, 1, kMaxPrefetch},
    Field{"raster_cols", Kind::count, &Chip::raster_cols, 0, 4096},
    Field{"wavefronts", Kind::count, &Chip::wavefronts, 1, 64},
    Field{"llc_bytes", Kind::bytes, &Chip::llc_bytes, 0, 1e12},
    Field{"llc_ways", Kind::count, &Chip::llc_ways, 1, 1024, true},
    Field{"llc_latency", Kind::duration, &Chip::llc_latency_s, 0, 1e-3},
    Field{"dram_rate", Kind::rate, &Chip::dram_bytes_per_s, 1e6, 1e15},
    Field{"dram_latency", Kind::duration, &Chip::dram_latency_s, 0, 1e-3, true},
    Field{"burst_bytes", Kind::bytes, &Chip::burst_bytes, 64, 1 << 24},
    Field{"dram_entry_bytes", Kind::bytes, &Chip::dram_entry_bytes, 32, 1 << 24},
    Field{"dram_entries", Kind::count, &Chip::dram_entries, 1, 1 << 20},
    Field{"turnaround", Kind::duration, &Chip::turnaround_s, 0, 1e-6, true},
    Field{"stream_switch", Kind::duration, &Chip::stream_switch_s, 0, 1e-6, true},
    Field{"update_factor", Kind::number, &Chip::update_factor, 0.1, 100, true},
    Field{"grant_bytes", Kind::bytes, &Chip::grant_bytes, 32, 1 << 24, true},
    Field{"starvation_limit", Kind::duration, &Chip::starvation_s, 0, 1, true},
    Field{"kernel_rate", Kind::rate, &Chip::kernel_bytes_per_s, 1e6, 1e15, true},
    Field{"fused_cu_share", Kind::number, &Chip::fused_cu_share, 0.01, 1},
    Field{"link_rate", Kind::rate, &Chip::link_bytes_per_s, 1e3, 1e15},
    Field{"link_latency", Kind::duration, &Chip::link_latency_s, 0, 1},
    Field{"egress_bytes", Kind::bytes, &Chip::egress_bytes, 0, 1e12},
    Field{"copy_trigger", Kind::duration, &Chip::copy_trigger_s, 0, 1},
    Field{"dma_bytes", Kind::bytes, &Chip::dma_bytes, 1, 1e12},
    Field{"tracker_entries", Kind::count, &Chip::tracker_entries, 1, 1 << 24},
    Field{"tracker_ways", Kind::count, &Chip::tracker_ways, 1, 1 << 24},
    Field{"spill_bytes", Kind::bytes, &Chip::spill_bytes, 0, 1 << 20},
};

const Field& field_of(std::string_view key) {
  const auto found = std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return f.key == key; });
  if (found != kFields.end()) return *found;
  std::vector<std::string_view> keys;
  for (const Field& field : kFields) keys.push_back(field.key);
  bad_input("a chip has no parameter \"{}\"; use one of {}", key, fmt::join(keys, ", "));
}

void put(Chip* chip, const Field& field, double value) {
  if (const auto* count = std::get_if<int Chip::*>(&field.place))
    chip->** count = static_cast<int>(std::llround(value));
  else if (const auto* bytes = std::get_if<std::int64_t Chip::*>(&field.place))
    chip->** bytes = std::llround(value);
  else
    chip->*std::get<double Chip::*>(field.place) = value;
}

// What stands beside "source": {"value": ..., "source": "..."}.
const Json& value_of(const Json& object, std::string_view key, std::string_view where) {
  const Json& entry = get_object(object, key, where);
  const std::string inside = fmt::format("{}: in \"{}\"", where, key);
  check_fields(entry, {"value", "source"}, inside);
  if (get_string(entry, "source", inside).empty())
    bad_input("{}: \"source\" is empty; say where the number comes from, or \"assumed\"", inside);
  const Json* value = find_field(entry, "value", inside);
  if (!value) bad_input("{}: \"value\" is missing; give the number", inside);
  return *value;
}

double in_units(const Json& value, const Field& field, std::string_view where) {
  constexpr std::array<const char*, 5> kWanted{"a whole number", "a number", "bytes as text, as \"16 MiB\"",
                                               "a rate as text, as \"75 GB/s\"", "a time as text, as \"500 ns\""};
  const char* wanted = kWanted[static_cast<std::size_t>(field.kind)];
  const bool is_text = field.kind == Kind::bytes || field.kind == Kind::rate || field.kind == Kind::duration;
  if (is_text ? !value.is_string() : field.kind == Kind::count ? !value.is_number_integer() : !value.is_number())
    bad_input("{}: \"{}\" is {}; give {}", where, field.key, value.dump(), wanted);
  if (!is_text) return value.get<double>();
  const auto text = value.get<std::string>();
  try {
    if (field.kind == Kind::bytes) return static_cast<double>(parse_bytes(text));
    return field.kind == Kind::rate ? parse_rate(text) : parse_duration(text);
  } catch (const Error& error) {
    bad_input("{}: \"{}\": {}", where, field.key, error.what());
  }
}

void read_mca(const Json& object, std::string_view where, Chip* chip) {
  const Json& steps = value_of(object, "mca_steps", where);
  if (!steps.is_array()) bad_input("{}: \"mca_steps\" is {}; give a list", where, steps.dump());
  for (const Json& step : steps) {
    if (!step.is_array() || step.size() != 2 || !step[0].is_number() || !step[1].is_number_integer())
      bad_input("{}: \"mca_steps\" has {}; give pairs [intensity, entries], as [0.5, 5]", where, step.dump());
    chip->mca_steps.push_back({step[0].get<double>(), step[1].get<int>()});
  }
  const auto falls = [](const McaStep& a, const McaStep& b) { return a.intensity < b.intensity; };
  if (std::adjacent_find(chip->mca_steps.begin(), chip->mca_steps.end(), falls) != chip->mca_steps.end())
    bad_input("{}: \"mca_steps\" is out of order; list the highest intensity first", where);
}

void check_keys(const Json& object, std::string_view where) {
  for (const auto& [key, value] : object.items()) {
    const auto known = [&](const Field& field) { return field.key == key; };
    if (key == "name" || key == "source" || key == "mca_steps" || key == "note") continue;
    if (std::none_of(kFields.begin(), kFields.end(), known))
      bad_input("{}: unknown field \"{}\"; see clusters/chips/t3-paper.json for those there are", where, key);
  }
}

}  // namespace

Chip parse_chip(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where, {.bytes = kMaxDataFileBytes});
  Chip chip;
  chip.name = get_string(object, "name", where);
  chip.source = get_string(object, "source", where);
  check_keys(object, where);
  for (const Field& field : kFields) {
    const double value = in_units(value_of(object, field.key, where), field, where);
    if (!(value >= field.min && value <= field.max))
      bad_input("{}: \"{}\" is {}; give a value from {} to {} in base units (bytes, seconds)", where, field.key, value,
                field.min, field.max);
    put(&chip, field, value);
  }
  read_mca(object, where, &chip);
  if (chip.tracker_entries % chip.tracker_ways != 0)
    bad_input("{}: \"tracker_ways\" is {}, which {} entries cannot share; give a divisor", where, chip.tracker_ways,
              chip.tracker_entries);
  return chip;
}

Chip load_chip(const std::string& name_or_path) {
  const std::string path = find_data_file(kFolder, "chip", name_or_path);
  return parse_chip(read_text_file(path, kMaxDataFileBytes), path);
}

std::vector<std::string> chip_names() { return data_file_names(kFolder); }

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all = [] {
    std::vector<Knob> out;
    for (const Field& field : kFields) out.push_back({field.key, field.free});
    return out;
  }();
  return all;
}

double knob(const Chip& chip, std::string_view key) {
  return std::visit([&](auto place) { return static_cast<double>(chip.*place); }, field_of(key).place);
}

void set_knob(Chip* chip, std::string_view key, double value) {
  const Field& field = field_of(key);
  if (!(value >= field.min && value <= field.max))
    bad_input("\"{}\" cannot be {}; use {} to {}", key, value, field.min, field.max);
  put(chip, field, value);
}

}  // namespace weft::sim
