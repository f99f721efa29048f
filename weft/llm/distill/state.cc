#include "weft/llm/distill/state.h"

#include <filesystem>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/sha256.h"
#include "weft/io/tensor/safetensors.h"
#include "weft/llm/distill/block_weights.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string get(const TensorFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    bad_input("{}: its metadata has no \"{}\"; remove it, and the block is distilled again", file.path(), key);
  return found->second;
}

double get_number(const TensorFile& file, const std::string& key) {
  const std::string text = get(file, key);
  try {
    return std::stod(text);
  } catch (const std::exception&) {
    bad_input("{}: \"{}\" of its metadata is no number; remove it, and the block is distilled again", file.path(), key);
  }
}

}  // namespace

std::string settings_of(const DistillJob& job, int ranks) {
  const DistillOptions& o = job.options;
  std::string tasks;
  for (const BlockTask& task : job.tasks)
    tasks += !task.drop ? 's' : !task.repair ? 'd' : "rgb"[static_cast<int>(task.grouping)];
  Sha256 text;
  for (const auto& sample : job.samples)
    text.add({reinterpret_cast<const char*>(sample.data()), sample.size() * sizeof(int)});
  return fmt::format("tp {} epochs {} lr {} clip {} decay {} batch {} seed {} inputs {} blocks {} samples {} {} {}",
                     ranks, o.epochs, o.lr, o.clip, o.weight_decay, o.batch, o.seed, to_string(o.inputs), tasks,
                     job.samples.size(), to_hex(text.finish()).substr(0, 16), job.about);
}

DistillState::DistillState(std::string folder, const ModelConfig& config, std::string settings)
    : folder_(std::move(folder)), config_(config), settings_(std::move(settings)) {}

std::string DistillState::path(int block) const {
  return (fs::path(folder_) / fmt::format("block-{:04}.safetensors", block)).string();
}

std::optional<DistilledBlock> DistillState::find(int block) const {
  std::error_code error;
  if (!fs::exists(path(block), error)) return std::nullopt;
  const TensorFile file = TensorFile::open(path(block));
  if (get(file, "settings") != settings_)
    bad_input(
        "{}: this is the state of a distillation with other settings ({}; now {}); give another --out, or remove the "
        "file",
        file.path(), get(file, "settings"), settings_);
  DistilledBlock done{.block = block,
                      .loss_before = get_number(file, "loss_before"),
                      .loss_after = get_number(file, "loss_after"),
                      .grouped = get(file, "grouped") == "yes",
                      .resumed = true,
                      .seconds = get_number(file, "seconds")};
  done.weights = read_block(config_, *file_source(path(block)), block);
  return done;
}

void DistillState::save(const DistilledBlock& done) const {
  std::vector<std::vector<std::byte>> storage;
  write_safetensors(path(done.block), name_block(config_, done.block, done.weights, StoredDtype::f32, &storage),
                    {{"settings", settings_},
                     {"loss_before", fmt::format("{}", done.loss_before)},
                     {"loss_after", fmt::format("{}", done.loss_after)},
                     {"grouped", done.grouped ? "yes" : "no"},
                     {"seconds", fmt::format("{:.1f}", done.seconds)}});
}

}  // namespace weft
