// Reading workload files, and finding them.
#include "weft/cluster/workload.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/names.h"
#include "weft/cluster/data_file.h"

namespace weft {
namespace {

constexpr Names<WorkloadKind, 3> kKinds{
    {{WorkloadKind::transformer, "transformer"}, {WorkloadKind::moe, "moe"}, {WorkloadKind::dlrm, "dlrm"}}};
constexpr Names<AttentionSplit, 2> kAttentions{{{AttentionSplit::tensor, "tensor"}, {AttentionSplit::data, "data"}}};
constexpr Names<Collective, 5> kCollectives{{{Collective::none, "none"},
                                             {Collective::all_reduce, "all_reduce"},
                                             {Collective::reduce_scatter, "reduce_scatter"},
                                             {Collective::all_gather, "all_gather"},
                                             {Collective::all_to_all, "all_to_all"}}};

// Wider than any model, narrow enough that tokens * top_k and every width stay within 64 bits.
constexpr std::int64_t kMaxWidth = 1 << 22, kMaxCount = 1 << 16, kMaxSequence = 1 << 24, kMaxBatch = 1 << 20;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;
constexpr std::size_t kMaxTables = 1 << 16, kMaxMlp = 64;

// Reads the fields of one object, each within its range.
struct Reader {
  const Json& object;
  std::string_view where;

  std::int64_t width(std::string_view key) const { return get_int(object, key, where, 1, kMaxWidth); }
  std::int64_t count(std::string_view key, std::int64_t min = 1) const {
    return get_int(object, key, where, min, kMaxCount);
  }
  double factor(std::string_view key) const { return get_double(object, key, where, 1e-6, 1); }
  template <typename T, std::size_t n>
  T choice(const Names<T, n>& names, std::string_view key) const {
    const std::string text = get_string(object, key, where);
    try {
      return parse_name(names, key, text);
    } catch (const Error& error) {
      bad_input("{}: \"{}\": {}", where, key, error.what());
    }
  }
  std::vector<std::int64_t> list(std::string_view key, std::size_t most, std::int64_t max) const {
    std::vector<std::int64_t> values = get_ints(object, key, where, 1, max);
    if (values.empty() || values.size() > most)
      bad_input("{}: \"{}\" has {} items; give 1 to {}", where, key, values.size(), most);
    return values;
  }
};

void read_block(const Reader& in, Workload* w) {
  w->hidden = in.width("hidden");
  w->layers = in.count("layers");
  w->heads = in.count("heads");
  w->kv_heads = in.count("kv_heads");
  if (w->heads % w->kv_heads != 0)
    bad_input("{}: \"kv_heads\" is {}, which {} heads cannot share; give a divisor", in.where, w->kv_heads, w->heads);
  w->head_dim = in.count("head_dim");
  w->ffn = in.width("ffn");
  w->gated = get_bool(in.object, "gated", in.where);
  w->sequence = get_int(in.object, "sequence", in.where, 1, kMaxSequence);
}

void read_experts(const Reader& in, Workload* w) {
  w->experts = in.count("experts");
  w->top_k = get_int(in.object, "top_k", in.where, 1, w->experts);
  w->shared_experts = in.count("shared_experts", 0);
  w->attention = in.choice(kAttentions, "attention");
  w->q_rank = get_int(in.object, "q_rank", in.where, 0, kMaxWidth);
  w->kv_rank = get_int(in.object, "kv_rank", in.where, 0, kMaxWidth);
  w->rope_dim = get_int(in.object, "rope_dim", in.where, 0, kMaxWidth);
  if ((w->q_rank == 0) != (w->kv_rank == 0))
    bad_input("{}: \"q_rank\" is {} and \"kv_rank\" is {}; give both, or 0 for plain attention", in.where, w->q_rank,
              w->kv_rank);
  if (w->q_rank > 0 && w->attention == AttentionSplit::tensor)
    bad_input(
        "{}: \"attention\" is \"tensor\", but latent attention (\"q_rank\" {}) is not split by heads here; use "
        "\"data\"",
        in.where, w->q_rank);
}

void read_tables(const Reader& in, Workload* w) {
  w->dim = in.width("dim");
  w->rows = in.list("rows", kMaxTables, kMaxRows);
  w->multi_hot = in.list("multi_hot", kMaxTables, kMaxCount);
  if (w->rows.size() != w->multi_hot.size())
    bad_input("{}: \"multi_hot\" has {} items and \"rows\" {}; give one of each for a table", in.where,
              w->multi_hot.size(), w->rows.size());
  w->bottom = in.list("bottom", kMaxMlp, kMaxWidth);
  w->top = in.list("top", kMaxMlp, kMaxWidth);
  if (w->bottom.back() != w->dim)
    bad_input("{}: \"bottom\" ends with {}, but meets tables of \"dim\" {}; make them equal", in.where,
              w->bottom.back(), w->dim);
  w->cross_layers = get_int(in.object, "cross_layers", in.where, 0, 64);
  w->cross_rank = in.width("cross_rank");
  if (find_field(in.object, "interaction", in.where)) w->interaction = in.width("interaction");
}

Scale read_scale(const Json& object, WorkloadKind kind, std::string_view where) {
  const Json& value = get_object(object, "scale_down", where);
  const std::string inside = fmt::format("{}: in \"scale_down\"", where);
  const Reader in{value, inside};
  Scale scale;
  if (kind == WorkloadKind::dlrm) {
    check_fields(value, {"why", "ranks", "hidden", "rows", "batch"}, inside);
    scale.rows = get_int(value, "rows", inside, 1, kMaxRows);
    scale.batch = get_int(value, "batch", inside, 1, kMaxBatch);
  } else {
    if (kind == WorkloadKind::moe) {
      check_fields(value, {"why", "ranks", "tokens", "hidden", "ffn", "experts", "top_k"}, inside);
      scale.experts = in.count("experts");
      scale.top_k = get_int(value, "top_k", inside, 1, scale.experts);
    } else {
      check_fields(value, {"why", "ranks", "tokens", "hidden", "ffn"}, inside);
    }
    scale.tokens = get_int(value, "tokens", inside, 1, kMaxSequence);
    scale.ffn = in.factor("ffn");
  }
  scale.hidden = in.factor("hidden");
  scale.ranks = static_cast<int>(in.count("ranks"));
  scale.why = get_string(value, "why", inside);
  return scale;
}

Training read_training(const Json& object, WorkloadKind kind, std::string_view where) {
  Training out;
  if (!find_field(object, "training", where)) return out;
  const Json& value = get_object(object, "training", where);
  const std::string inside = fmt::format("{}: in \"training\"", where);
  check_fields(value, {"why", "tp", "pp", "dp", "ep", "schedule", "chunks", "micro_batches", "micro_batch"}, inside);
  const Reader in{value, inside};
  const auto count = [&](std::string_view key) { return static_cast<int>(in.count(key)); };
  out.tp = count("tp"), out.pp = count("pp"), out.dp = count("dp"), out.ep = count("ep");
  out.schedule = get_string(value, "schedule", inside);
  out.chunks = count("chunks"), out.micro_batches = count("micro_batches");
  out.micro_batch = get_int(value, "micro_batch", inside, 1, kMaxBatch);
  get_string(value, "why", inside);
  if (kind == WorkloadKind::dlrm && (out.tp != 1 || out.pp != 1 || out.ep != 1))
    bad_input("{}: tables are dealt to all ranks of \"dp\"; give 1 for \"tp\", \"pp\" and \"ep\"", inside);
  if (kind == WorkloadKind::transformer && out.ep != 1)
    bad_input("{}: \"ep\" is {}, but there are no experts; give 1", inside, out.ep);
  if (kind == WorkloadKind::moe && out.tp != 1)
    bad_input("{}: \"tp\" is {}; attention of a mixture of experts is split over \"ep\", give 1", inside, out.tp);
  return out;
}

void check_known(const Json& object, WorkloadKind kind, std::string_view where) {
  if (kind == WorkloadKind::transformer)
    check_fields(object,
                 {"name", "note", "source", "kind", "dtype", "batch", "degrees", "scale_down", "training", "hidden",
                  "layers", "heads", "kv_heads", "head_dim", "ffn", "gated", "sequence"},
                 where);
  if (kind == WorkloadKind::moe)
    check_fields(object,
                 {"name",     "note",    "source", "kind",           "dtype",     "batch",    "degrees", "scale_down",
                  "training", "hidden",  "layers", "heads",          "kv_heads",  "head_dim", "ffn",     "gated",
                  "sequence", "experts", "top_k",  "shared_experts", "attention", "q_rank",   "kv_rank", "rope_dim"},
                 where);
  if (kind == WorkloadKind::dlrm)
    check_fields(object,
                 {"name", "note", "source", "kind", "dtype", "batch", "degrees", "scale_down", "training", "dim",
                  "rows", "multi_hot", "bottom", "top", "cross_layers", "cross_rank", "interaction"},
                 where);
}

}  // namespace

std::string_view to_string(Collective collective) { return name_of(kCollectives, collective); }

Workload parse_workload(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where, {.bytes = kMaxDataFileBytes});
  const Reader in{object, where};
  Workload w;
  w.kind = in.choice(kKinds, "kind");
  check_known(object, w.kind, where);
  w.name = get_string(object, "name", where);
  w.source = get_string(object, "source", where);
  const std::string dtype = get_string(object, "dtype", where);
  try {
    w.dtype = parse_dtype(dtype);
  } catch (const Error& error) {
    bad_input("{}: \"dtype\": {}", where, error.what());
  }
  w.batch = get_int(object, "batch", where, 1, kMaxBatch);
  for (std::int64_t degree : in.list("degrees", 64, kMaxCount)) w.degrees.push_back(static_cast<int>(degree));
  w.scale_down = read_scale(object, w.kind, where);
  w.training = read_training(object, w.kind, where);
  if (w.kind == WorkloadKind::dlrm) {
    read_tables(in, &w);
  } else {
    read_block(in, &w);
    if (w.kind == WorkloadKind::moe) read_experts(in, &w);
  }
  return w;
}

Workload load_workload(const std::string& name_or_path) {
  const std::string path = find_data_file("workloads", "workload", name_or_path);
  return parse_workload(read_text_file(path, kMaxDataFileBytes), path);
}

std::vector<std::string> workload_names() { return data_file_names("workloads"); }

}  // namespace weft
