#include "weft/llm/spd/sensitivity.h"

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/names.h"

namespace weft {
namespace {

constexpr Names<BlockClass, 3> kClasses{{{BlockClass::isb, "ISB"}, {BlockClass::sb, "SB"}, {BlockClass::esb, "ESB"}}};

std::int64_t first_changed(const Modes& modes) {
  return std::find_if(modes.begin(), modes.end(), [](BlockMode m) { return m != BlockMode{}; }) - modes.begin();
}

// A batch of windows: what goes into every block as long as all before it are synchronised.
class SharedPrefix {
 public:
  SharedPrefix(BlockEngines& engines, std::span<const TokenWindow> windows) : engines_(engines), batch_(windows) {}

  // Computes the inputs of blocks 0 to `last`.
  void fill(std::int64_t last, std::int64_t blocks) {
    engines_.own.set_modes(all_blocks(blocks, {}));
    inputs_.emplace_back();  // of block 0: the embeddings
    for (std::int64_t block = 0; block < last; ++block)
      inputs_.push_back(run_part(engines_.own, block, block + 1, inputs_.back()));
  }

  std::vector<WindowScore> score(const Modes& modes) {
    const auto blocks = std::ssize(modes);
    engines_.own.set_modes(modes);
    if (engines_.repaired != nullptr) engines_.repaired->set_modes(modes);
    // With nothing changed there is still the last block to run, for the norm behind it.
    std::int64_t begin = std::min(first_changed(modes), std::ssize(inputs_) - 1);
    std::vector<float> x = inputs_[at(begin)];
    for (std::int64_t end; begin < blocks; begin = end) {
      Engine& engine = engine_of(modes, begin);
      for (end = begin + 1; end < blocks && &engine_of(modes, end) == &engine;) ++end;
      if (end == blocks) {
        run(engine, begin, end, x);
        return batch_.score(engine);
      }
      x = run_part(engine, begin, end, x);
    }
    fail(Code::internal, "an evaluation ran no block");
  }

 private:
  Engine& engine_of(const Modes& modes, std::int64_t block) {
    const auto b = num(block);
    const bool repaired = engines_.repaired != nullptr && modes[b].drop && engines_.is_repaired[b];
    return repaired ? *engines_.repaired : engines_.own;
  }

  void run(Engine& engine, std::int64_t begin, std::int64_t end, std::span<const float> x) {
    batch_.clear(engine);
    engine.forward_blocks(begin, end, batch_.feeds(), x);
  }

  std::vector<float> run_part(Engine& engine, std::int64_t begin, std::int64_t end, std::span<const float> x) {
    run(engine, begin, end, x);
    return {engine.residual().begin(), engine.residual().end()};
  }

  BlockEngines& engines_;
  WindowBatch batch_;
  std::vector<std::vector<float>> inputs_;
};

}  // namespace

std::string_view to_string(BlockClass of) { return name_of(kClasses, of); }

BlockClass class_of(double sensitivity, const Thresholds& thresholds) {
  if (sensitivity <= thresholds.tau1) return BlockClass::isb;
  return sensitivity <= thresholds.tau2 ? BlockClass::sb : BlockClass::esb;
}

std::vector<std::vector<WindowScore>> score_modes(BlockEngines& engines, std::span<const TokenWindow> windows,
                                                  std::span<const Modes> configurations, const EvalProgress& progress) {
  const std::int64_t blocks = engines.own.model().config().blocks;
  std::int64_t deepest = 0;
  for (const Modes& modes : configurations) {
    if (std::ssize(modes) != blocks) bad_input("{} modes for {} blocks; give one per block", modes.size(), blocks);
    deepest = std::max(deepest, std::min(first_changed(modes), blocks - 1));
  }
  const auto batch = num(engines.own.options().sequences);
  std::vector<std::vector<WindowScore>> scores(configurations.size());
  for (std::size_t begin = 0; begin < windows.size(); begin += batch) {
    SharedPrefix prefix(engines, windows.subspan(begin, std::min(batch, windows.size() - begin)));
    prefix.fill(deepest, blocks);
    for (std::size_t c = 0; c < configurations.size(); ++c) {
      const std::vector<WindowScore> found = prefix.score(configurations[c]);
      scores[c].insert(scores[c].end(), found.begin(), found.end());
      if (progress)
        progress("windows", static_cast<std::int64_t>(begin * configurations.size() + (c + 1) * found.size()),
                 static_cast<std::int64_t>(windows.size() * configurations.size()));
    }
  }
  return scores;
}

Sensitivity measure_sensitivity(BlockEngines& engines, std::span<const TokenWindow> windows,
                                const EvalProgress& progress) {
  const std::int64_t blocks = engines.own.model().config().blocks;
  std::vector<Modes> configurations;
  for (std::int64_t from = 0; from <= blocks; ++from) {
    Modes& modes = configurations.emplace_back(all_blocks(blocks, {}));
    for (std::int64_t b = from; b < blocks; ++b) modes[at(b)].drop = true;
  }
  Sensitivity out;
  out.dropped_from = score_modes(engines, windows, configurations, progress);
  for (const auto& scores : out.dropped_from) out.perplexity_from.push_back(perplexity(scores));
  for (std::size_t i = 0; i < num(blocks); ++i) out.s.push_back(out.perplexity_from[i] - out.perplexity_from[i + 1]);
  return out;
}

std::vector<int> drop_order(std::span<const double> sensitivity) {
  std::vector<int> order(sensitivity.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return sensitivity[at(a)] < sensitivity[at(b)]; });
  return order;
}

std::vector<Modes> dropped_in_order(std::span<const int> order) {
  std::vector<Modes> out{all_blocks(std::ssize(order), {})};
  for (const int block : order) {
    Modes modes = out.back();
    modes[at(block)].drop = true;
    out.push_back(std::move(modes));
  }
  return out;
}

}  // namespace weft
