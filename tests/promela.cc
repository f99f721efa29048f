#include "tests/promela.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

constexpr std::size_t kMaxProcesses = 250;  // spin has 255

struct Place {
  int rank, buffer;
  Box box;
};

struct Lane {
  int rank = 0, number = 0, step = -1;  // step: its place among the rank's steps; -1: a trigger's
  std::vector<Wait> waits;              // counters already those of this lane
  std::vector<Place> reads, targets;
  std::vector<Signal> signals;
};

// Cuts every buffer where some box begins or ends, and joins the cells that lie in the same boxes.
class Regions {
 public:
  void add(const Place& place) {
    auto& boxes = boxes_[{place.rank, place.buffer}];
    if (std::find(boxes.begin(), boxes.end(), place.box) == boxes.end()) boxes.push_back(place.box);
  }

  void cut() {
    for (const auto& [where, boxes] : boxes_) {
      std::vector<std::vector<std::int64_t>> cuts(boxes[0].dims);
      for (int d = 0; d < boxes[0].dims; ++d) {
        std::set<std::int64_t> at;
        for (const Box& box : boxes) at.insert({box.lo[d], box.hi[d]});
        cuts[d].assign(at.begin(), at.end());
      }
      Box cell;
      cell.dims = boxes[0].dims;
      walk(where, boxes, cuts, 0, &cell);
    }
  }

  int size() const { return int_size(owner_); }
  const std::vector<int>& of(const Place& place) const {
    static const std::vector<int> kNone;
    const auto found = of_box_.find({{place.rank, place.buffer}, key(place.box)});
    return found == of_box_.end() ? kNone : found->second;
  }

 private:
  using Where = std::pair<int, int>;
  static std::vector<std::int64_t> key(const Box& box) {
    std::vector<std::int64_t> out(box.lo.begin(), box.lo.begin() + box.dims);
    out.insert(out.end(), box.hi.begin(), box.hi.begin() + box.dims);
    return out;
  }

  void walk(Where where, const std::vector<Box>& boxes, const std::vector<std::vector<std::int64_t>>& cuts, int d,
            Box* cell) {
    if (d == cell->dims) return place_cell(where, boxes, *cell);
    for (std::size_t i = 0; i + 1 < cuts[d].size(); ++i) {
      cell->lo[d] = cuts[d][i], cell->hi[d] = cuts[d][i + 1];
      walk(where, boxes, cuts, d + 1, cell);
    }
  }

  void place_cell(Where where, const std::vector<Box>& boxes, const Box& cell) {
    std::vector<std::size_t> inside;
    for (std::size_t i = 0; i < boxes.size(); ++i)
      if (contains(boxes[i], cell)) inside.push_back(i);
    if (inside.empty()) return;
    const auto [at, is_new] = owner_.insert({{where, inside}, size()});
    if (!is_new) return;
    for (const std::size_t i : inside) of_box_[{where, key(boxes[i])}].push_back(at->second);
  }

  std::map<Where, std::vector<Box>> boxes_;
  std::map<std::pair<Where, std::vector<std::size_t>>, int> owner_;
  std::map<std::pair<Where, std::vector<std::int64_t>>, std::vector<int>> of_box_;
};

class Writer {
 public:
  Writer(const Plan& plan, int runs)
      : plan_(plan), expander_(plan), runs_(runs), lanes_of_(plan.num_ranks), outputs_(plan.num_ranks) {
    for (const Buffer& buffer : plan.buffers)
      if (buffer.depth != 1)
        bad_input("buffer \"{}\" has {} copies; only plans with one copy of each buffer are exported to spin",
                  buffer.name, buffer.depth);
    for (int rank = 0; rank < plan.num_ranks; ++rank) collect(expander_.program(rank));
    for (int rank = 0; rank < plan.num_ranks; ++rank)
      for (const Expander::Due& due : expander_.owed(rank))
        if (plan.buffers[due.piece.buffer].role == Role::output)
          outputs_[rank].push_back({rank, due.piece.buffer, due.piece.box});
    const std::size_t processes = lanes_.size() * runs + plan.num_ranks;
    if (processes > kMaxProcesses)
      bad_input("plan \"{}\" has {} lanes, {} processes in {} runs; spin takes {}: export a smaller shape", plan.name,
                lanes_.size(), processes, runs, kMaxProcesses);
    for (const Lane& lane : lanes_) {
      for (const Place& place : lane.reads) regions_.add(place);
      for (const Place& place : lane.targets) regions_.add(place);
    }
    for (const auto& places : outputs_)
      for (const Place& place : places) regions_.add(place);
    regions_.cut();
  }

  std::string write() {
    out_ = fmt::format("/* {}, {} ranks, {} runs */\n", plan_.name, plan_.num_ranks, runs_);
    out_ += fmt::format("byte written[{0}];  /* by run, from 1 */\nbyte readers[{0}];\nbool many_threads;\n",
                        std::max(regions_.size(), 1));
    for (int r = 0; r < plan_.num_ranks; ++r)
      out_ += fmt::format("short counter{0}[{1}];\nbyte run{0};\nbyte left{0} = {2};\nbyte next{0};\n", r,
                          std::max<std::int64_t>(expander_.num_counters(r), 1), lanes_of_[r]);
    out_ += "\ninline store(x, e) {\n  assert(readers[x] == 0 && written[x] == e);\n  written[x] = e + 1\n}\n";
    out_ += "inline begin_read(x, e) {\n  assert(written[x] == e + 1);\n  readers[x]++\n}\n";
    for (const Lane& lane : lanes_) write_lane(lane);
    for (int r = 0; r < plan_.num_ranks; ++r) write_rank(r);
    out_ += "\ninit {\n  byte e;\n  atomic {\n    if :: many_threads = false :: many_threads = true fi;\n";
    for (int r = 0; r < plan_.num_ranks; ++r) out_ += fmt::format("    run rank{}();\n", r);
    out_ += fmt::format("    for (e : 0 .. {}) {{\n", runs_ - 1);
    for (const Lane& lane : lanes_) out_ += fmt::format("      run lane{}_{}(e);\n", lane.rank, lane.number);
    return out_ + "    }\n  }\n}\n";
  }

 private:
  void collect(const Program& program) {
    int steps = 0;
    for (const Action& action : program.actions)
      for (std::int64_t i = 0; i < action.lanes; ++i) {
        Lane lane;
        lane.rank = program.rank;
        lane.number = lanes_of_[program.rank]++;
        if (action.kind == ActionKind::step) lane.step = steps++;
        for (Wait w : program.of(action)) {
          w.counter += static_cast<std::int32_t>(w.per > 0 ? i / w.per : 0);
          lane.waits.push_back(w);
        }
        for (Signal g : program.signals_of(action)) {
          g.counter += static_cast<std::int32_t>(g.per > 0 ? i / g.per : 0);
          lane.signals.push_back(g);
        }
        const auto add = [&](std::span<const Piece> pieces, bool by_rows, std::vector<Place>* places) {
          for (const Piece& p : pieces)
            if (plan_.buffers[p.buffer].role != Role::input)
              places->push_back(
                  {p.rank, p.buffer, by_rows ? lane_rows(p.box, action, i) : lane_box(p.box, action.tile, i)});
        };
        add(program.reads(action), true, &lane.reads);
        add(program.sources(action), false, &lane.reads);
        add(program.targets(action), false, &lane.targets);
        lanes_.push_back(std::move(lane));
      }
  }

  std::string ready(const Lane& lane) const {
    std::string out = fmt::format("run{} == e", lane.rank);
    if (lane.step >= 0) out += fmt::format(" && (many_threads || next{} == {})", lane.rank, lane.step);
    for (const Wait& w : lane.waits) {
      const std::uint32_t total = expander_.counter_total(w.counter, lane.rank);
      out += fmt::format(" && counter{}[{}] + {} >= e * {} + {}", lane.rank, w.counter,
                         static_cast<std::int64_t>(w.lag) * total, total, w.at);
    }
    return out;
  }

  std::string each(const Place& place, std::string_view what) const {
    std::string out;
    for (const int region : regions_.of(place)) out += fmt::format(fmt::runtime(what), region);
    return out;
  }

  std::string signals_to(const Lane& lane, int rank) const {
    std::string out;
    for (const Signal& g : lane.signals)
      if (g.rank == rank) out += fmt::format("      counter{}[{}]++;\n", g.rank, g.counter);
    return out;
  }

  void write_lane(const Lane& lane) {
    out_ += fmt::format("\nproctype lane{}_{}(byte e) {{\n", lane.rank, lane.number);
    std::vector<const Place*> remote;
    for (const Place& p : lane.targets)
      if (p.rank != lane.rank) remote.push_back(&p);
    for (std::size_t i = 0; remote.size() > 1 && i < remote.size(); ++i) out_ += fmt::format("  bool landed{};\n", i);
    out_ += fmt::format("  atomic {{\n    ({}) ->\n", ready(lane));
    if (!lane.reads.empty()) {
      for (const Place& p : lane.reads) out_ += each(p, "      begin_read({}, e);\n");
      out_ += "  }\n  atomic {\n";
      for (const Place& p : lane.reads) out_ += each(p, "      readers[{}]--;\n");
    }
    for (const Place& p : lane.targets)
      if (p.rank == lane.rank) out_ += each(p, "      store({}, e);\n");
    for (int q = 0; q < plan_.num_ranks; ++q)
      if (std::none_of(remote.begin(), remote.end(), [&](const Place* p) { return p->rank == q; }))
        out_ += signals_to(lane, q);
    if (lane.step >= 0) out_ += fmt::format("      next{}++;\n", lane.rank);
    out_ += fmt::format("      left{}--\n  }};\n", lane.rank);
    if (!remote.empty()) write_landings(lane, remote);
    out_ += "}\n";
  }

  void write_landings(const Lane& lane, const std::vector<const Place*>& remote) {
    if (remote.size() == 1) {
      out_ += "  atomic {\n" + each(*remote[0], "      store({}, e);\n") + signals_to(lane, remote[0]->rank) + "  }\n";
      return;
    }
    out_ += "  do\n";
    std::string all = "true";
    for (std::size_t i = 0; i < remote.size(); ++i) {
      out_ += fmt::format("  :: atomic {{ !landed{0} ->\n      landed{0} = true;\n", i) +
              each(*remote[i], "      store({}, e);\n");
      std::string covered = "true";
      for (std::size_t k = 0; k < remote.size(); ++k)
        if (remote[k]->rank == remote[i]->rank) covered += fmt::format(" && landed{}", k);
      if (const std::string signals = signals_to(lane, remote[i]->rank); !signals.empty())
        out_ += fmt::format("      if :: {} ->\n{}      :: else fi\n", covered, signals);
      out_ += "    }\n";
      all += fmt::format(" && landed{}", i);
    }
    out_ += fmt::format("  :: {} -> break\n  od\n", all);
  }

  // The outputs of the last run stay open to the caller, so that whatever still lands there is found out.
  void write_rank(int r) {
    std::set<int> regions;
    for (const Place& p : outputs_[r])
      for (const int region : regions_.of(p)) regions.insert(region);
    out_ += fmt::format("\nproctype rank{}() {{\n  byte e;\n  do\n  :: atomic {{ left{} == 0 ->\n", r, r);
    for (const int x : regions) out_ += fmt::format("      begin_read({}, e);\n", x);
    out_ += fmt::format("      if :: e == {} -> break :: else fi\n    }};\n    atomic {{\n", runs_ - 1);
    for (const int x : regions) out_ += fmt::format("      readers[{}]--;\n", x);
    out_ += fmt::format("      e++;\n      run{0} = e;\n      left{0} = {1};\n      next{0} = 0\n    }}\n  od\n}}\n", r,
                        lanes_of_[r]);
  }

  const Plan& plan_;
  Expander expander_;
  int runs_;
  std::vector<int> lanes_of_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<Place>> outputs_;  // what callers read
  Regions regions_;
  std::string out_;
};

}  // namespace

std::string to_promela(const Plan& plan, int runs) { return Writer(plan, runs).write(); }

}  // namespace weft
