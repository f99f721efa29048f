#include "weft/study/reshard/nic_gantt.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weft/base/index.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr std::size_t kSvgRows = 64, kLegend = 7, kHintRanks = 8;

struct Row {
  draw::GanttRow drawn;
  double used = 0;  // of the rate, over the makespan
};

int kind_of(const ReshardSpec& spec, const Task& task, int index) {
  return spec.reshard.transfers.size() > 1 ? task.transfer : index;
}

std::string nic_name(const Network& network, int nic) {
  const int host = network.nics[at(nic)].host;
  int before = 0, all = 0;
  for (int n = 0; n < int_size(network.nics); ++n)
    if (network.nics[at(n)].host == host) ++all, before += n < nic;
  return all == 1 ? fmt::format("host {}", host) : fmt::format("host {} nic {}", host, before);
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    parts.push_back(j == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[j]));
    i = j + 1;
  }
  if (parts.size() > kHintRanks) parts.resize(kHintRanks), parts.emplace_back("..");
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string task_text(const ReshardSpec& spec, const Task& task) {
  const ShardedTensor& tensor = spec.reshard.transfers[at(task.transfer)].destination;
  return fmt::format("{}{}, {}, from ranks {} to {}", spec.reshard.transfers.size() > 1 ? tensor.name : "",
                     to_string(task.box), format_bytes(task.bytes), ranks_text(task.senders),
                     ranks_text(task.receivers));
}

// The rows by NIC and direction: 2 * nic sends, 2 * nic + 1 receives.
std::map<int, Row> rows_of(const ReshardSpec& spec, const std::vector<Task>& tasks, const Schedule& schedule) {
  std::map<int, Row> rows;
  const Network& network = spec.network;
  for (const Chunk& chunk : schedule.chunks) {
    const double seconds = chunk.end_s - chunk.begin_s;
    if (!(seconds > 0)) continue;
    const Task& task = tasks[at(chunk.task)];
    const double rate = chunk.bytes / seconds;
    for (const Hop& hop : chunk.hops) {
      if (network.host_of(hop.from) == network.host_of(hop.to)) continue;
      for (const bool sends : {true, false}) {
        const int nic = network.nic_of[at(sends ? hop.from : hop.to)];
        Row& row = rows[2 * nic + !sends];
        const double share = rate / network.nics[at(nic)].bytes_per_s;
        row.drawn.bars.push_back({chunk.begin_s, chunk.end_s, share, kind_of(spec, task, chunk.task),
                                  fmt::format("{} -> {}: {}", hop.from, hop.to, task_text(spec, task))});
        if (schedule.makespan_s > 0) row.used += share * seconds / schedule.makespan_s;
      }
    }
  }
  for (auto& [key, row] : rows) {
    row.drawn.group = nic_name(network, key / 2);
    row.drawn.name = key % 2 == 0 ? "send" : "receive";
  }
  return rows;
}

// The busiest `most` rows, in their order, and what the busiest of the others uses.
std::vector<Row> busiest(const std::map<int, Row>& rows, std::size_t most, double* next) {
  std::vector<const Row*> all;
  for (const auto& [key, row] : rows) all.push_back(&row);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return all[a]->used > all[b]->used + 1e-9; });
  *next = order.size() > most ? all[order[most]]->used : 0;
  order.resize(std::min(order.size(), most));
  std::sort(order.begin(), order.end());
  std::vector<Row> out;
  for (const std::size_t i : order) out.push_back(*all[i]);
  return out;
}

std::string left_out(std::size_t all, std::size_t shown, double next) {
  if (all <= shown) return "";
  return fmt::format("{} of {} rows are left out; the busiest of them is used {:.0f} %", all - shown, all, 100 * next);
}

// One glyph per cell. Bars that share a cell take turns in the cells, each as often as its bytes ask for.
std::string cells(const draw::GanttRow& row, int count, double end) {
  std::string out(num(count), '.');
  std::map<int, double> owed;  // of each kind, in full cells
  const double cell = end / count;
  const auto pieces = draw::stacked(row.bars);
  std::vector<std::map<int, double>> content(num(count));
  for (const draw::StackedBar& piece : pieces) {
    const int first = std::clamp(static_cast<int>(piece.begin_s / cell), 0, count - 1);
    const int last = std::clamp(static_cast<int>(std::ceil(piece.end_s / cell)) - 1, first, count - 1);
    for (int c = first; c <= last; ++c) {
      const double inside = std::min(piece.end_s, (c + 1) * cell) - std::max(piece.begin_s, c * cell);
      if (inside > 0) content[at(c)][row.bars[piece.bar].kind] += piece.share * inside / cell;
    }
  }
  for (int c = 0; c < count; ++c) {
    const auto& here = content[at(c)];
    double sum = 0;
    for (const auto& [kind, share] : here) owed[kind] += share, sum += share;
    if (sum < 0.05) continue;  // idle but for a rounding
    auto most = here.begin();
    for (auto one = here.begin(); one != here.end(); ++one)
      if (owed[one->first] > owed[most->first] + 1e-9) most = one;
    owed[most->first] -= sum;
    out[at(c)] = glyph_of(most->first);
  }
  return out;
}

std::string scale_line(std::size_t indent, int count, double end) {
  std::string line(indent + num(count) + 12, ' ');
  const int marks = std::clamp(count / 16, 1, 4);
  for (int m = 0; m <= marks; ++m) {
    const std::string text = m == 0 ? "0" : format_duration(end * m / marks);
    const auto at = indent + num(count) * num(m) / num(marks);
    const std::size_t begin = m == 0 ? at : at - std::min(at, text.size());
    line.replace(begin, text.size(), text);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::vector<draw::GanttRow> nic_rows(const ReshardSpec& spec, const std::vector<Task>& tasks,
                                     const Schedule& schedule) {
  std::vector<draw::GanttRow> out;
  for (auto& [key, row] : rows_of(spec, tasks, schedule)) out.push_back(row.drawn);
  return out;
}

char glyph_of(int kind) {
  constexpr std::string_view kGlyphs = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return kGlyphs[at(kind) % kGlyphs.size()];
}

std::string gantt_text(const ReshardSpec& spec, const std::vector<Task>& tasks, const Schedule& schedule,
                       const GanttLimits& limits) {
  const auto all = rows_of(spec, tasks, schedule);
  double next = 0;
  const auto rows = busiest(all, num(limits.rows), &next);
  if (rows.empty()) return "  no NIC carries anything\n";
  std::size_t names = 0;
  for (const Row& row : rows) names = std::max(names, row.drawn.group.size());
  const std::size_t indent = 2 + names + 2 + 7 + 2;  // "  host 0  receive  "
  const int count = std::max(8, limits.width - static_cast<int>(indent) - 7);
  std::string out = scale_line(indent, count, schedule.makespan_s);
  std::string group;
  for (const Row& row : rows) {
    out += fmt::format("  {:<{}}  {:<7}  {}  {:>3.0f} %\n", row.drawn.group == group ? "" : row.drawn.group, names,
                       row.drawn.name, cells(row.drawn, count, schedule.makespan_s), 100 * row.used);
    group = row.drawn.group;
  }
  const std::string note = left_out(all.size(), rows.size(), next);
  if (!note.empty()) out += fmt::format("  ... {}\n", note);
  return out + fmt::format("  one letter per {}, '.' idle; at the right the part of the NIC's rate that is used\n",
                           spec.reshard.transfers.size() > 1 ? "tensor" : "task");
}

std::string gantt_svg(const ReshardSpec& spec, const std::vector<Task>& tasks, const Schedule& schedule) {
  const auto all = rows_of(spec, tasks, schedule);
  double next = 0;
  draw::Gantt what;
  what.title = spec.name;
  what.subtitle =
      fmt::format("{}, {}: makespan {} ({} of the whole over one NIC), bound {}", to_string(schedule.strategy),
                  to_string(schedule.choice), format_duration(schedule.makespan_s),
                  share_text(spec.in_tensors(schedule.makespan_s)), format_duration(schedule.lower_bound_s));
  for (const Row& row : busiest(all, kSvgRows, &next)) what.rows.push_back(row.drawn);
  const bool many = spec.reshard.transfers.size() > 1;
  const std::size_t kinds = many ? spec.reshard.transfers.size() : tasks.size();
  for (std::size_t i = 0; i < std::min(kinds, kLegend); ++i)
    what.kinds.push_back(many ? spec.reshard.transfers[i].destination.name : to_string(tasks[i].box));
  what.limits = {{schedule.lower_bound_s, "lower bound"}};
  what.note = left_out(all.size(), what.rows.size(), next);
  if (kinds > kLegend)
    what.note +=
        fmt::format("{}colours repeat: {} {} in all", what.note.empty() ? "" : "; ", kinds, many ? "tensors" : "tasks");
  return draw::gantt(what);
}

}  // namespace weft
