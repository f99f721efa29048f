#include "weft/llm/model/config_rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr double kMostTheta = 1e12, kMostFactor = 1e6;

bool is_given(const Json& json, std::string_view key, const std::string& where) {
  const Json* field = find_field(json, key, where);
  return field != nullptr && !field->is_null();
}

// "rope_type", or "type" as older files have it; "default" where there is neither.
std::string type_of(const Json& scaling, const std::string& where) {
  for (const char* key : {"rope_type", "type"})
    if (is_given(scaling, key, where)) return get_string(scaling, key, where);
  return "default";
}

RopeScaling llama3_of(const Json& scaling, const std::string& where) {
  RopeScaling out{.kind = RopeScaling::Kind::llama3, .factor = get_double(scaling, "factor", where, 1, kMostFactor)};
  out.low_freq_factor = get_double(scaling, "low_freq_factor", where, 1e-3, kMostFactor);
  out.high_freq_factor = get_double(scaling, "high_freq_factor", where, 1e-3, kMostFactor);
  out.original_positions = get_double(scaling, "original_max_position_embeddings", where, 1, 1e9);
  if (out.high_freq_factor <= out.low_freq_factor)
    bad_input("{}: \"high_freq_factor\" is {}, not above \"low_freq_factor\" {}; is the file whole?", where,
              out.high_freq_factor, out.low_freq_factor);
  return out;
}

RopeScaling scaling_of(const Json& scaling, const std::string& where) {
  const std::string type = type_of(scaling, where);
  if (type == "default") return {};
  if (type == "linear")
    return {.kind = RopeScaling::Kind::linear, .factor = get_double(scaling, "factor", where, 1e-3, kMostFactor)};
  if (type == "dynamic")
    return {.kind = RopeScaling::Kind::dynamic, .factor = get_double(scaling, "factor", where, 1, kMostFactor)};
  if (type == "llama3") return llama3_of(scaling, where);
  bad_input(
      "{}: rotary scaling of type {} is not supported; Weft has default, linear, dynamic and llama3, so use a "
      "checkpoint without it",
      where, weft::quoted(type));
}

}  // namespace

void read_rope(const Json& json, const std::string& where, ModelConfig* config) {
  if (is_given(json, "rope_parameters", where)) {
    const Json& rope = get_object(json, "rope_parameters", where);
    const std::string inside = where + ", rope_parameters";
    if (is_given(rope, "rope_theta", inside))
      config->rope_theta = get_double(rope, "rope_theta", inside, 1, kMostTheta);
    config->rope = scaling_of(rope, inside);
  } else {
    if (is_given(json, "rope_theta", where)) config->rope_theta = get_double(json, "rope_theta", where, 1, kMostTheta);
    if (is_given(json, "rope_scaling", where))
      config->rope = scaling_of(get_object(json, "rope_scaling", where), where + ", rope_scaling");
  }
  const Json* partial = find_field(json, "partial_rotary_factor", where);
  if (partial != nullptr && partial->is_number() && partial->get<double>() != 1.0)
    bad_input(
        "{}: \"partial_rotary_factor\" is {}: heads that are turned in part are not supported; use a model "
        "without it",
        where, partial->get<double>());
}

std::vector<double> rotary_rates(const ModelConfig& config) {
  if (config.family != ModelFamily::llama) return {};
  std::vector<double> rates(num(config.head_dim / 2));
  const RopeScaling& rope = config.rope;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    double rate = std::pow(config.rope_theta, -2.0 * i / config.head_dim);
    if (rope.kind == RopeScaling::Kind::linear) rate /= rope.factor;
    if (rope.kind == RopeScaling::Kind::llama3) {
      const double turns =
          rope.original_positions * rate / (2 * std::numbers::pi);  // within the first training's length
      const double kept =
          std::clamp((turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0.0, 1.0);
      rate = (1 - kept) * rate / rope.factor + kept * rate;
    }
    rates[i] = rate;
  }
  return rates;
}

}  // namespace weft
