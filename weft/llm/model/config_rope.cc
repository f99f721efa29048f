#include "weft/llm/model/config_rope.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr double kMostTheta = 1e12, kMostFactor = 1e6, kMostLength = 1e9;

// "rope_type", or "type" as older files have it; "default" where there is neither. Some files have both.
std::string type_of(ConfigReader* scaling) {
  std::string type = scaling->text_or("type", "default");
  return scaling->text_or("rope_type", type);
}

void read_llama3(ConfigReader* scaling, RotaryDesign* out) {
  out->kind = RotaryKind::llama3;
  out->factor = scaling->number("factor", 1, kMostFactor);
  out->low_freq_factor = scaling->number("low_freq_factor", 1e-3, kMostFactor);
  out->high_freq_factor = scaling->number("high_freq_factor", 1e-3, kMostFactor);
  if (out->high_freq_factor <= out->low_freq_factor)
    bad_input("{}: \"high_freq_factor\" is {}, not above \"low_freq_factor\" {}; is the file whole?", scaling->where(),
              out->high_freq_factor, out->low_freq_factor);
}

// By how much yarn lets scores grow: of the factor, or of two that are given.
double yarn_magnitude(ConfigReader* scaling, double factor) {
  const auto growth = [&](double by) { return factor <= 1 ? 1.0 : 0.1 * by * std::log(factor) + 1.0; };
  const double whole = scaling->number_or("mscale_all_dim", 0, 0, kMostFactor);
  const double scale = scaling->number_or("mscale", 0, 0, kMostFactor);
  const double otherwise = scale != 0 && whole != 0 ? growth(scale) / growth(whole) : growth(1);
  return scaling->number_or("attention_factor", otherwise, 1e-3, kMostFactor);
}

void read_yarn(ConfigReader* scaling, std::int64_t max_positions, RotaryDesign* out) {
  out->kind = RotaryKind::yarn;
  out->factor =
      scaling->number_or("factor", static_cast<double>(max_positions) / out->original_positions, 1e-3, kMostFactor);
  out->magnitude = yarn_magnitude(scaling, out->factor);
  out->beta_fast = scaling->number_or("beta_fast", 32, 1e-3, kMostFactor);
  out->beta_slow = scaling->number_or("beta_slow", 1, 1e-3, kMostFactor);
  out->whole_bounds = scaling->flag_or("truncate", true);
}

void read_longrope(ConfigReader* scaling, std::int64_t max_positions, RotaryDesign* out) {
  out->kind = RotaryKind::longrope;
  out->short_factors = scaling->numbers("short_factor", 1e-3, kMostFactor);
  out->long_factors = scaling->numbers("long_factor", 1e-3, kMostFactor);
  for (const auto* factors : {&out->short_factors, &out->long_factors})
    if (std::ssize(*factors) != out->columns / 2)
      bad_input("{}: \"{}\" has {} values for {} pairs of columns that turn; is the file whole?", scaling->where(),
                factors == &out->short_factors ? "short_factor" : "long_factor", factors->size(), out->columns / 2);
  out->factor =
      scaling->number_or("factor", static_cast<double>(max_positions) / out->original_positions, 1e-3, kMostFactor);
  const double otherwise =
      out->factor <= 1 ? 1.0 : std::sqrt(1 + std::log(out->factor) / std::log(out->original_positions));
  out->magnitude = scaling->number_or("attention_factor", otherwise, 1e-3, kMostFactor);
}

// `length`: what the file says of the first training's texts outside of the scaling; 0: nothing.
void read_scaling(ConfigReader* scaling, std::int64_t max_positions, double length, RotaryDesign* out) {
  const std::string type = type_of(scaling);
  const double inside =
      scaling->number_or("original_max_position_embeddings", static_cast<double>(max_positions), 2, kMostLength);
  if (type == "llama3" || type == "yarn" || type == "longrope" || type == "su")
    out->original_positions = length > 0 ? length : inside;
  if (type == "linear") {
    out->kind = RotaryKind::linear;
    out->factor = scaling->number("factor", 1e-3, kMostFactor);
  } else if (type == "dynamic") {
    out->kind = RotaryKind::dynamic;
    out->factor = scaling->number("factor", 1, kMostFactor);
  } else if (type == "llama3") {
    read_llama3(scaling, out);
  } else if (type == "yarn") {
    read_yarn(scaling, max_positions, out);
  } else if (type == "longrope" || type == "su") {
    read_longrope(scaling, max_positions, out);
  } else if (type != "default") {
    bad_input(
        "{}: rotary scaling of type {} is not supported; Weft has default, linear, dynamic, llama3, yarn and "
        "longrope, so use a checkpoint without it",
        scaling->where(), weft::quoted(type));
  }
  scaling->refuse_rest();
}

void set_columns(const ModelConfig& config, double turned, std::string_view key, RotaryDesign* out) {
  out->columns = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * turned);
  if (out->columns < 2 || out->columns % 2 != 0)
    bad_input(
        "{}: of a head's {} columns {} turn by \"{}\", but rotary positions turn pairs; \"head_dim\" must be even",
        config.file, config.head_dim, out->columns, key);
}

RotaryDesign rope_of(ConfigReader* rope, const ModelConfig& config, double theta, double turned, double length) {
  RotaryDesign out{.theta = rope->number_or("rope_theta", theta, 1, kMostTheta)};
  set_columns(config, rope->number_or("partial_rotary_factor", turned, 0, 1), "partial_rotary_factor", &out);
  read_scaling(rope, config.max_positions, length, &out);
  return out;
}

}  // namespace

RotaryDesign read_rope(ConfigReader* reader, const ModelConfig& config, const RopeDefaults& defaults) {
  const double theta = reader->number_or(defaults.theta_key, defaults.theta, 1, kMostTheta);
  const double turned = reader->number_or(defaults.turned_key, defaults.turned, 0, 1);
  const double length = reader->number_or("original_max_position_embeddings", 0, 2, kMostLength);
  reader->must_be("rope_interleaved", false, "pairs of neighbouring columns that turn are not supported");
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (reader->has(key)) {
      ConfigReader rope(get_object(reader->json(), key, reader->where()), reader->where() + ", " + key);
      return rope_of(&rope, config, theta, turned, length);
    }
  RotaryDesign out{.theta = theta};
  set_columns(config, turned, defaults.turned_key, &out);
  return out;
}

std::vector<RotaryDesign> read_rope_pair(ConfigReader* reader, const ModelConfig& config) {
  const double theta = reader->number_or("rope_theta", 1e6, 1, kMostTheta);
  const double local = reader->number_or("rope_local_base_freq", 1e4, 1, kMostTheta);
  std::vector<RotaryDesign> out(2);
  for (RotaryDesign& rotary : out) set_columns(config, 1, "head_dim", &rotary);
  out[0].theta = theta, out[1].theta = local;
  if (reader->has("rope_scaling")) {
    ConfigReader scaling(get_object(reader->json(), "rope_scaling", reader->where()),
                         reader->where() + ", rope_scaling");
    read_scaling(&scaling, config.max_positions, 0, &out[0]);
  }
  if (!reader->has("rope_parameters")) return out;
  ConfigReader both(get_object(reader->json(), "rope_parameters", reader->where()),
                    reader->where() + ", rope_parameters");
  const char* keys[] = {"full_attention", "sliding_attention"};
  for (std::size_t i = 0; i < out.size(); ++i)
    if (both.has(keys[i])) {
      ConfigReader one(get_object(both.json(), keys[i], both.where()), both.where() + ", " + keys[i]);
      out[i] = rope_of(&one, config, i == 0 ? theta : local, 1, 0);
    }
  both.refuse_rest();
  return out;
}

}  // namespace weft
