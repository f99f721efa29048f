#include "weft/sim/step/text_workload.h"

#include <charconv>
#include <sstream>

#include "weft/base/error.h"
#include "weft/base/json.h"

namespace weft::netsim {
namespace {

struct Pass {
  double seconds = 0;
  SpaceKind kind = SpaceKind::keep;
  std::int64_t bytes = 0;
};
struct TextLayer {
  std::string name;
  Pass forward, input, weight;
  double update_s = 0;
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(std::move(word));
  return out;
}

std::int64_t whole(const std::string& word, std::int64_t min, std::int64_t max, const std::string& where) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < min || value > max)
    bad_input("{}: \"{}\" is no whole number from {} to {}; give one", where, word, min, max);
  return value;
}

SpaceKind text_collective(std::string word, const std::string& where) {
  for (const std::string_view suffix : {"_DP_EP", "_EP"})
    if (word.ends_with(suffix)) word.resize(word.size() - suffix.size());
  if (word == "NONE") return SpaceKind::keep;
  if (word == "ALLREDUCE") return SpaceKind::all_reduce;
  if (word == "ALLGATHER") return SpaceKind::all_gather;
  if (word == "REDUCESCATTER") return SpaceKind::reduce_scatter;
  if (word == "ALLTOALL") return SpaceKind::all_to_all;
  bad_input("{}: unknown collective \"{}\"; use NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER or ALLTOALL", where, word);
}

Pass pass_of(const std::vector<std::string>& words, std::size_t first, const std::string& where) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  Pass out;
  out.seconds = static_cast<double>(whole(words[first], 0, kMost, where)) * 1e-9;
  out.kind = text_collective(words[first + 1], where);
  out.bytes = whole(words[first + 2], 0, kMost, where);
  if (out.kind != SpaceKind::keep && out.bytes == 0)
    bad_input("{}: {} of 0 bytes; give its size, or NONE", where, words[first + 1]);
  return out;
}

int group_size(const std::vector<std::string>& policy, const TextOptions& options, std::string_view where) {
  if (policy[0] == "DATA") return 1;
  if (policy[0] == "MODEL" || policy[0].starts_with("DLRM")) return options.ranks;
  int size = options.model_ranks;
  for (std::size_t i = 0; i + 1 < policy.size() && size == 0; ++i)
    if (policy[i] == "model_parallel_NPU_group:")
      size = static_cast<int>(whole(policy[i + 1], 1, 1 << 20, fmt::format("{}: line 1", where)));
  if (size == 0)
    bad_input("{}: line 1: {} says nothing of its groups; add model_parallel_NPU_group: N, or give --tp", where,
              policy[0]);
  if (options.ranks % size != 0)
    bad_input("{}: groups of {} do not share {} ranks; use a divisor", where, size, options.ranks);
  return size;
}

// One program for all ranks.
class TextWriter {
 public:
  TextWriter(std::string_view where, int model, const TextOptions& options)
      : writer_(std::string(where), options.trace.plans), fuse_(options.trace.fuse), used_(fuse_.size(), false) {
    StepGraph& graph = writer_.graph();
    graph.num_ranks = options.ranks;
    graph.axes = {options.ranks / model, model};
    graph.is_alike = {true, true};
    graph.communicators.push_back(communicator_along("model", graph.axes, {1}));
    graph.communicators.push_back(communicator_along("data", graph.axes, {0}));
    graph.communicators.push_back(communicator_along("all ranks", graph.axes, {0, 1}));
    sizes_ = {model, options.ranks / model, options.ranks};
  }

  StepGraph write(const std::vector<TextLayer>& layers, int weights_over) {
    for (const TextLayer& layer : layers) add(layer.name, layer.forward, 0);
    std::vector<std::pair<std::int32_t, double>> sums;
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      const ProgramWriter::Nodes gradient = front_;
      add(layer->name + " weight gradient", layer->weight, weights_over);
      sums.push_back({front_[0], layer->update_s});
      front_ = gradient;
      add(layer->name + " input gradient", layer->input, 0);
    }
    for (const auto& [sum, seconds] : sums) last_ = program_.compute(writer_.name("update"), seconds, {sum, last_});
    for (std::size_t p = 0; p < used_.size(); ++p)
      if (!used_[p]) bad_input("--fuse {} matches no layer; look at its names", fuse_[p]);
    StepGraph out = writer_.take();
    out.programs.push_back(program_.take());
    out.program_of.assign(num(out.num_ranks), 0);
    return out;
  }

 private:
  void add(const std::string& name, const Pass& pass, int communicator) {
    const int ranks = sizes_[at(communicator)];
    const bool moves = pass.kind != SpaceKind::keep && ranks > 1;
    ProgramWriter::Nodes needs = front_;
    needs.push_back(last_);
    bool fused = false;
    for (std::size_t p = 0; p < fuse_.size(); ++p)
      if (matches(fuse_[p], name)) used_[p] = true, fused = moves && pass.seconds > 0;
    const std::int64_t bytes = pass.kind == SpaceKind::all_gather ? pass.bytes * ranks : pass.bytes;
    if (fused) {
      const std::int32_t shape = writer_.shape({pass.kind, ranks, bytes, pass.seconds});
      front_ = {program_.collective(writer_.name(fmt::format("{} + {}", name, to_string(pass.kind))), shape,
                                    communicator, needs)};
      return;
    }
    last_ = program_.compute(writer_.name(name), pass.seconds, needs);
    front_ = {last_};
    if (!moves) return;
    const std::int32_t shape = writer_.shape({pass.kind, ranks, bytes});
    front_ = {program_.collective(writer_.name(fmt::format("{} {}", name, to_string(pass.kind))), shape, communicator,
                                  {last_})};
  }

  GraphWriter writer_;
  ProgramWriter program_;
  ProgramWriter::Nodes front_;
  std::int32_t last_ = -1;
  std::vector<int> sizes_;
  const std::vector<std::string>& fuse_;
  std::vector<bool> used_;
};

}  // namespace

StepGraph parse_text_workload(std::string_view text, std::string_view where, const TextOptions& options) {
  if (options.ranks < 2) bad_input("{}: {} ranks; give a network of at least 2", where, options.ranks);
  std::istringstream in{std::string(text)};
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> policy = words_of(line);
  if (policy.empty()) bad_input("{}: line 1 is empty; it says how the model is split, as DATA", where);
  std::getline(in, line);
  const std::vector<std::string> count = words_of(line);
  if (count.size() != 1) bad_input("{}: line 2 has {} words; give the number of layers", where, count.size());
  const std::int64_t layers = whole(count[0], 1, 1 << 16, fmt::format("{}: line 2", where));
  std::vector<TextLayer> all;
  for (std::int64_t number = 3; number < layers + 3; ++number) {
    const std::string place = fmt::format("{}: line {}", where, number);
    if (!std::getline(in, line))
      bad_input("{}: the file ends, but line 2 says {} layers; add them, or say {}", place, layers, all.size());
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 12) bad_input("{}: {} words; a layer has 12", place, words.size());
    TextLayer layer;
    layer.name = words[0];
    layer.forward = pass_of(words, 2, place), layer.input = pass_of(words, 5, place);
    layer.weight = pass_of(words, 8, place);
    layer.update_s = static_cast<double>(whole(words[11], 0, std::int64_t{1} << 50, place)) * 1e-9;
    all.push_back(std::move(layer));
  }
  const int model = group_size(policy, options, where);
  const bool all_of_them = model == options.ranks;  // no place is left for groups of replicas
  return TextWriter(where, model, options).write(all, all_of_them ? 2 : 1);
}

StepGraph load_text_workload(const std::string& path, const TextOptions& options) {
  return parse_text_workload(read_text_file(path, std::size_t{64} << 20), path, options);
}

}  // namespace weft::netsim
