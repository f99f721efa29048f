#include "weft/llm/spd/spd_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/base/sha256.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kDigits = 64;

// A digest as it stands in the file; anything else could never agree with one that is computed.
std::string get_digest(const Json& object, std::string_view key, const std::string& where) {
  std::string text = get_string(object, key, where);
  const bool hex =
      std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (text.size() != kDigits || !hex)
    bad_input("{}: \"{}\" is {}; give {} hexadecimal digits in lower case", where, key,
              weft::quoted(text.substr(0, 80)), kDigits);
  return text;
}

std::vector<BlockMode> get_blocks(const Json& object, const std::string& where) {
  const Json& names = get_array(object, "blocks", where);
  if (names.empty() || names.size() > kMostBlocks)
    bad_input("{}: \"blocks\" has {} modes; give one for each block, 1 to {}", where, names.size(), kMostBlocks);
  std::vector<BlockMode> modes;
  for (const Json& name : names) {
    if (!name.is_string())
      bad_input("{}: mode {} of \"blocks\" is no string; give a name such as \"sync\" or \"drop\"", where,
                modes.size());
    try {
      modes.push_back(parse_block_mode(name.get<std::string>()));
    } catch (const Error& error) {
      bad_input("{}: block {}: {}", where, modes.size(), error.what());
    }
  }
  return modes;
}

std::vector<double> get_sensitivity(const Json& object, const std::string& where, std::size_t blocks) {
  const Json& values = get_array(object, "sensitivity", where);
  if (values.size() != blocks)
    bad_input("{}: \"sensitivity\" has {} numbers for {} blocks; give one per block", where, values.size(), blocks);
  std::vector<double> out;
  for (const Json& value : values) {
    if (!value.is_number()) bad_input("{}: number {} of \"sensitivity\" is none; give a perplexity", where, out.size());
    out.push_back(value.get<double>());
  }
  return out;
}

// The file may come from someone else, so it names only files beside it: no absolute path, no way up.
std::string get_weights(const Json& object, const std::string& where) {
  std::string name = get_string(object, "weights", where);
  const fs::path path(name);
  const bool up = std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
  if (name.empty() || name.size() > 255 || name.find('\0') != std::string::npos || path.is_absolute() || up)
    bad_input("{}: \"weights\" is {}; give the name of a file beside the spd file", where,
              weft::quoted(name.substr(0, 80)));
  return name;
}

}  // namespace

std::string SpdFile::weights_path() const {
  return weights.empty() ? "" : (fs::path(path).parent_path() / weights).string();
}

SpdFile parse_spd(std::string_view text, const std::string& path) {
  const Json object = parse_json(text, path, {.bytes = kMostBytes});
  check_fields(object, {"format", "model", "tp", "blocks", "sensitivity", "weights", "weights_sha256", "why"}, path);
  if (const auto format = get_int(object, "format", path); format != kSpdFormat)
    bad_input("{}: \"format\" is {}; this Weft reads format {}, so make the file again with `weft spd analyze`", path,
              format, kSpdFormat);
  SpdFile spd;
  spd.path = path;
  spd.model = get_digest(object, "model", path);
  spd.tp = get_small(object, "tp", path, 1, kMostTp);
  spd.blocks = get_blocks(object, path);
  if (find_field(object, "sensitivity", path)) spd.sensitivity = get_sensitivity(object, path, spd.blocks.size());
  if (find_field(object, "why", path)) spd.why = get_string(object, "why", path);
  if (find_field(object, "weights", path)) {
    spd.weights = get_weights(object, path);
    spd.weights_sha256 = get_digest(object, "weights_sha256", path);
  } else if (find_field(object, "weights_sha256", path)) {
    bad_input("{}: \"weights_sha256\" is there but \"weights\" is not; name the file or leave both out", path);
  }
  return spd;
}

SpdFile load_spd(const std::string& path) {
  SpdFile spd = parse_spd(read_text_file(path, kMostBytes), path);
  std::error_code error;
  if (spd.weights.empty() || fs::is_regular_file(spd.weights_path(), error)) return spd;
  const std::string missing = spd.weights_path();
  spd.weights = fs::path(spd.weights).filename().string();  // both were moved into one folder
  if (!fs::is_regular_file(spd.weights_path(), error))
    bad_input("{}: its weights \"{}\" are not there; they are a file of their own, so move {} (sha256 {}...) beside it",
              path, missing, spd.weights, spd.weights_sha256.substr(0, 12));
  return spd;
}

std::string to_json(const SpdFile& spd) {
  nlohmann::ordered_json out{{"format", kSpdFormat}, {"model", spd.model}, {"tp", spd.tp}};
  for (const BlockMode mode : spd.blocks) out["blocks"].push_back(to_string(mode));
  if (!spd.sensitivity.empty()) out["sensitivity"] = spd.sensitivity;
  if (!spd.weights.empty()) out["weights"] = spd.weights, out["weights_sha256"] = spd.weights_sha256;
  if (!spd.why.empty()) out["why"] = spd.why;
  return json_line(out);
}

void save_spd(const SpdFile& spd, const std::string& path) {
  const std::string text = to_json(spd);
  static_cast<void>(parse_spd(text, path));  // what cannot be read back is not written
  write_file(path, text);
}

void check_spd(const SpdFile& spd, const SpdTarget& target) {
  const std::string where = spd.path.empty() ? "spd file" : spd.path;
  if (spd.model != target.hash)
    bad_input("{}: made for model {}..., but \"{}\" is {}...; make one for this model with `weft spd analyze`", where,
              spd.model.substr(0, 12), target.model_name, target.hash.substr(0, 12));
  if (spd.tp != target.ranks)
    bad_input("{}: made for {} ranks, but there are {}; use --ranks {}, or make one with `weft spd analyze --tp {}`",
              where, spd.tp, target.ranks, spd.tp, target.ranks);
  if (int_size(spd.blocks) != target.blocks)
    bad_input("{}: \"blocks\" has {} modes, but \"{}\" has {} blocks; give one mode a block", where, spd.blocks.size(),
              target.model_name, target.blocks);
}

void check_spd_weights(const SpdFile& spd) {
  if (spd.weights.empty()) return;
  if (file_sha256(spd.weights_path()) != spd.weights_sha256)
    bad_input("{}: its weights \"{}\" have changed since it was written; make both again with `weft spd distill`",
              spd.path, spd.weights_path());
}

}  // namespace weft
