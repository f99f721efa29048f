#include "weft/sim/net/step_times.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/plan/price/traffic.h"

namespace weft::netsim {
namespace {

constexpr std::size_t kMaxTableBytes = std::size_t{1} << 20;

// Of the producer alone, beside sources and stores.
struct Work {
  double flops = 0, read_bytes = 0, gathered_bytes = 0;
};

Work work_of(const Producer& p, const Box& box, double pooled_rows) {
  const auto rows = static_cast<double>(box.size(0)), cols = static_cast<double>(box.size(1)),
             k = static_cast<double>(p.k);
  Work out;
  switch (p.kind) {
    case ProducerKind::gemm:
    case ProducerKind::gemv:
      out.flops = 2 * rows * cols * k;
      out.read_bytes = rows * k * 4 + cols * k * bytes_per_value(p.weight);
      break;
    case ProducerKind::embedding_bag:
      out.gathered_bytes = rows * cols * 4 * pooled_rows;
      break;
    case ProducerKind::copy:
      out.read_bytes = rows * cols * 4;
      break;
    case ProducerKind::window:
      break;  // the caller's own time
  }
  if (p.addend) out.read_bytes += rows * cols * 4;
  return out;
}

}  // namespace

StepRates rates_of(const Cluster& cluster) {
  StepRates out;
  out.flops_per_s = cluster.flops_per_s;
  out.read_bytes_per_s = cluster.read_bytes_per_s, out.write_bytes_per_s = cluster.write_bytes_per_s;
  out.gather_bytes_per_s = cluster.gather_bytes_per_s;
  out.tile_s = cluster.step_s;
  return out;
}

StepRates rates_of(const sim::Chip& chip) {
  StepRates out;
  out.flops_per_s = chip.flops_per_s();
  out.read_bytes_per_s = out.write_bytes_per_s = out.gather_bytes_per_s = chip.dram_bytes_per_s;
  return out;
}

StepSeconds step_seconds(const Plan& plan, const StepRates& rates) {
  return [&plan, rates](const Program& program, const Action& action) {
    const Producer& producer = plan.producers[at(action.producer)];
    Work work = work_of(producer, action.box, rates.pooled_rows);
    double written = 0;
    for (const Piece& source : program.sources(action))
      work.read_bytes += static_cast<double>(bytes_of(source.box, plan.buffers[at(source.buffer)].dtype));
    for (const Piece& target : program.targets(action))
      if (target.rank == program.rank)
        written += static_cast<double>(bytes_of(target.box, plan.buffers[at(target.buffer)].dtype));
    const double memory = work.read_bytes / rates.read_bytes_per_s + work.gathered_bytes / rates.gather_bytes_per_s +
                          written / rates.write_bytes_per_s;
    return static_cast<double>(action.lanes) * rates.tile_s + std::max(work.flops / rates.flops_per_s, memory);
  };
}

StepTable parse_step_table(std::string_view json, std::string_view where) {
  const Json object = parse_json(json, where);
  check_fields(object, {"name", "note", "seconds_per_tile"}, where);
  StepTable out;
  out.name = get_string(object, "name", where);
  const Json& times = get_object(object, "seconds_per_tile", where);
  const std::string inside = fmt::format("{}: in \"seconds_per_tile\"", where);
  for (const auto& [rule, value] : times.items()) out.seconds_per_tile[rule] = get_double(times, rule, inside, 0, 1e3);
  return out;
}

StepTable load_step_table(const std::string& path) {
  return parse_step_table(read_text_file(path, kMaxTableBytes), path);
}

StepSeconds step_seconds(const Plan& plan, const StepTable& table) {
  std::vector<double> per_tile;
  for (const Rule& rule : plan.rules) {
    const auto found = table.seconds_per_tile.find(rule.name);
    if (rule.kind == ActionKind::step && found == table.seconds_per_tile.end())
      bad_input("table \"{}\" has no time for \"{}\", a step of plan \"{}\"; add it to \"seconds_per_tile\"",
                table.name, rule.name, plan.name);
    per_tile.push_back(rule.kind == ActionKind::step ? found->second : 0);
  }
  return [per_tile](const Program&, const Action& action) {
    return per_tile[at(action.rule)] * static_cast<double>(action.lanes);
  };
}

}  // namespace weft::netsim
