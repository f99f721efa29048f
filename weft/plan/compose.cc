#include "weft/plan/compose.h"

#include <algorithm>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/compose_owed.h"
#include "weft/plan/program.h"
#include "weft/plan/rename.h"
#include "weft/plan/rule_words.h"

namespace weft {
namespace {

const Expr kMe = Expr::name("r");

// "m" -> "m.2", or the first free number.
std::string unique(const std::string& name, const std::set<std::string>& taken, int from = 2) {
  if (!taken.count(name)) return name;
  const std::size_t dot = name.find_last_of('.');
  const bool numbered = dot != std::string::npos && dot + 1 < name.size() &&
                        std::all_of(name.begin() + dot + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
  const std::string stem = numbered ? name.substr(0, dot) : name;
  for (int k = from;; ++k)
    if (std::string next = fmt::format("{}.{}", stem, k); !taken.count(next)) return next;
}

// Every name that an expression of the plan may use.
std::set<std::string> names_in(const Plan& plan) {
  const Scope scope = scope_of(plan);
  std::set<std::string> out(scope.names.begin(), scope.names.end());
  out.insert(scope.tables.begin(), scope.tables.end());
  for (const Rule& rule : plan.rules)
    for (const Let& let : rule.let) out.insert(let.name);
  for (const Owed& owed : plan.owed)
    for (const Let& let : owed.let) out.insert(let.name);
  return out;
}

class Joiner {
 public:
  Joiner(const Plan& first, const Plan& second, std::string_view output, std::string_view input)
      : first_(first), second_(second), out_(first), joined_(first.buffer(output)), input_(second.buffer(input)) {
    if (first.num_ranks != second.num_ranks)
      bad_input("\"{}\" is for {} ranks and \"{}\" for {}; compose plans of the same ranks", first.name,
                first.num_ranks, second.name, second.num_ranks);
    if (joined_ < 0 || first.buffers[joined_].role != Role::output)
      bad_input("plan \"{}\" has no output \"{}\" to go on from", first.name, output);
    if (first.buffers[joined_].packing.tile_rows > 0)
      bad_input("output \"{}\" of \"{}\" is packed in tiles; compose plans with row-major outputs", output, first.name);
    if (input_ >= 0 && second.buffers[input_].role != Role::input)
      bad_input("\"{}\" of \"{}\" is no input; name the buffer that it reads", input, second.name);
    if (input_ < 0) find_reader(input);
    check_shapes();
  }

  Plan join() {
    out_.name = fmt::format("{}, then {}", first_.name, second_.name);
    if (!second_.why.empty()) out_.why += (out_.why.empty() ? "" : "; ") + second_.why;
    if (second_.route != first_.route) out_.route.reset();
    if (second_.sum == Sum::any) out_.sum = Sum::any;
    merge_names();
    merge_buffers();
    merge_counters();
    merge_producers();
    signal_completion();
    for (const Rule& rule : second_.rules) out_.rules.push_back(moved(rule));
    merge_owed();
    return std::move(out_);
  }

 private:
  static bool unbound(const Rule& rule) { return rule.kind == ActionKind::step && rule.reads.empty(); }

  // The producer of second that reads its x from the caller.
  void find_reader(std::string_view input) {
    for (const Rule& rule : second_.rules) {
      if (!unbound(rule) || rule.producer == reader_) continue;
      if (reader_ >= 0)
        bad_input("producers {} and {} of \"{}\" both read from the caller; name the input buffer to join", reader_,
                  rule.producer, second_.name);
      reader_ = rule.producer;
    }
    if (reader_ < 0) bad_input("plan \"{}\" has no input \"{}\"", second_.name, input);
    if (second_.producers.at(reader_).kind == ProducerKind::embedding_bag)
      bad_input("\"{}\" reads indices, which no plan makes; put it first", second_.name);
  }
  bool copies() const { return reader_ >= 0 && second_.producers[reader_].kind == ProducerKind::copy; }

  void check_shapes() const {
    const Expander one(first_), two(second_);
    const Dtype dtype = input_ >= 0 ? second_.buffers[input_].dtype : Dtype::f32;
    if (dtype != first_.buffers[joined_].dtype)
      bad_input("\"{}\" makes {}, but \"{}\" reads {}", first_.name, to_string(first_.buffers[joined_].dtype),
                second_.name, to_string(dtype));
    for (int rank = 0; rank < first_.num_ranks; ++rank) {
      const std::vector<std::int64_t> made = one.shape(joined_, rank), read = wanted(two, rank);
      if (made == read) continue;
      const auto shown = [](const std::vector<std::int64_t>& shape) {
        std::string text;
        for (const std::int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
        return text;
      };
      bad_input(
          "on rank {}, \"{}\" makes {} but \"{}\" reads {}; give the second plan the shape that the first "
          "leaves",
          rank, first_.name, shown(made), second_.name, shown(read));
    }
  }
  std::vector<std::int64_t> wanted(const Expander& two, int rank) const {
    if (input_ >= 0) return two.shape(input_, rank);
    const Producer& p = second_.producers[reader_];
    return {p.m, copies() ? p.columns(rank) : p.k};
  }

  void merge_names() {
    std::set<std::string> taken = names_in(first_), own = names_in(second_);
    const auto fresh = [&](const std::string& name) {
      std::set<std::string> all = taken;
      all.insert(own.begin(), own.end());
      std::string out = taken.count(name) ? unique(name, all) : name;
      taken.insert(out);
      return out;
    };
    for (const Param& p : second_.params) {
      const auto same = [&](const Param& other) { return other.name == p.name && other.value == p.value; };
      if (std::any_of(first_.params.begin(), first_.params.end(), same)) continue;
      const std::string name = fresh(p.name);
      if (name != p.name) names_.names[p.name] = Expr::name(name);
      out_.params.push_back({name, p.value});
    }
    for (const NamedTable& t : second_.tables) {
      const auto same = [&](const NamedTable& other) { return other.name == t.name && other.values == t.values; };
      if (std::any_of(first_.tables.begin(), first_.tables.end(), same)) continue;
      const std::string name = fresh(t.name);
      if (name != t.name) names_.tables[t.name] = name;
      out_.tables.push_back({name, t.values});
    }
  }

  void merge_buffers() {
    std::set<std::string> taken, all;
    for (const Buffer& b : first_.buffers) all.insert(b.name);
    for (const Buffer& b : second_.buffers) all.insert(b.name);
    Buffer& joined = out_.buffers[joined_];
    joined.role = Role::internal;
    const int same = second_.buffer(joined.name);
    if (same >= 0 && same != input_) joined.name = unique(joined.name, all, 1);
    for (const Buffer& b : out_.buffers) taken.insert(b.name);
    for (int b = 0; b < int_size(second_.buffers); ++b) {
      buffer_of_.push_back(b == input_ ? joined_ : int_size(out_.buffers));
      if (b == input_) continue;
      Buffer buffer = second_.buffers[b];
      buffer.name = unique(buffer.name, taken);
      taken.insert(buffer.name);
      for (Expr& e : buffer.shape) e = renamed(e, names_);
      buffer.packing.block_rows = renamed(buffer.packing.block_rows, names_);
      out_.buffers.push_back(std::move(buffer));
    }
  }

  void merge_counters() {
    std::set<std::string> taken;
    for (const Counter& c : first_.counters) taken.insert(c.name);
    first_counter_ = int_size(out_.counters);
    for (Counter c : second_.counters) {
      c.name = unique(c.name, taken);
      taken.insert(c.name);
      c.count = renamed(c.count, names_);
      c.total = renamed(c.total, names_);
      out_.counters.push_back(std::move(c));
    }
  }

  // A copy that has become triggers is gone, unless its epilogue is applied.
  void merge_producers() {
    for (int p = 0; p < int_size(second_.producers); ++p) {
      const bool gone = copies() && p == reader_ && !second_.producers[p].has_epilogue();
      producer_of_.push_back(gone ? -1 : int_size(out_.producers));
      if (!gone) out_.producers.push_back(second_.producers[p]);
    }
  }

  // Every lane that writes the joined buffer on some rank raises that rank's counter of it.
  void signal_completion() {
    std::set<std::string> taken = names_in(out_);
    for (const Counter& c : out_.counters) taken.insert(c.name);
    const std::string name = unique(first_.buffers[joined_].name + ".full", taken);
    const int counter = int_size(out_.counters);
    for (Rule& rule : out_.rules)
      for (const PieceRule& p : rule.targets)
        if (p.buffer == joined_) rule.signals.push_back(signal(p.rank, counter).each(p.each).when(p.when));
    Table totals = writes();
    Expr total = totals[0];
    if (std::any_of(totals.begin(), totals.end(), [&](std::int64_t t) { return t != totals[0]; })) {
      total = Expr::table(name, kMe);
      out_.tables.push_back({name, std::move(totals)});
    }
    complete_ = wait(counter).reaches(total);
    out_.counters.push_back({name, 1, total});
  }

  // How many lanes write the joined buffer of each rank.
  Table writes() const {
    Table totals(first_.num_ranks, 0);
    const Expander expander(first_);
    for (int rank = 0; rank < first_.num_ranks; ++rank) {
      const Program program = expander.program(rank);
      for (const Action& action : program.actions)
        for (const Piece& p : program.targets(action))
          if (p.buffer == joined_) totals[p.rank] += action.lanes;
    }
    return totals;
  }

  Rule moved(const Rule& original) const {
    Rule rule = renamed(original, names_);
    for (WaitRule& w : rule.waits) w.counter += first_counter_;
    for (SignalRule& g : rule.signals) g.counter += first_counter_;
    for (auto* list : {&rule.reads, &rule.sources, &rule.targets})
      for (PieceRule& p : *list) p.buffer = buffer_of_.at(p.buffer);
    if (input_ < 0 && unbound(rule)) bind(&rule);
    if (rule.kind == ActionKind::step)
      rule.producer = producer_of_.at(rule.producer);
    else if (!rule.finish.is_number(0))
      rule.producer = producer_of_.at(std::max(rule.producer, 0));
    else
      rule.producer = -1;
    wait_for_completion(&rule);
    return rule;
  }

  // What the producer read from the caller, it now reads from the joined buffer.
  void bind(Rule* rule) const {
    if (copies()) {
      rule->kind = ActionKind::trigger;
      rule->sources.push_back(piece(joined_, rule->box));
      return;
    }
    const BoxRule rows{{rule->box.lo[0], 0}, {rule->box.hi[0], second_.producers[reader_].k}};
    rule->reads.push_back(piece(joined_, rows));
  }

  void wait_for_completion(Rule* rule) const {
    std::set<std::string> conditions;
    for (const auto* list : {&rule->reads, &rule->sources})
      for (const PieceRule& p : *list) {
        if (p.buffer != joined_) continue;
        WaitRule wait = complete_;
        if (!p.when.mentions("j")) wait.when = p.when;
        if (conditions.insert(wait.when.str()).second) rule->waits.push_back(wait);
      }
  }

  void merge_owed() {
    std::vector<Owed> through;
    for (const Owed& original : second_.owed) {
      Owed owed = renamed(original, names_);
      owed.piece.buffer = buffer_of_.at(owed.piece.buffer);
      if (owed.finished) owed.epilogue = producer_of_.at(std::max(owed.epilogue >= 0 ? owed.epilogue : owed.leaf, 0));
      const bool reads_joined = owed.leaf >= 0 ? copies() && owed.leaf == reader_ : -1 - owed.leaf == input_;
      if (reads_joined)
        through.push_back(owed);
      else if (owed.leaf >= 0)
        owed.leaf = producer_of_.at(owed.leaf);
      else
        owed.leaf = -1 - buffer_of_.at(-1 - owed.leaf);
      if (owed.epilogue == std::max(owed.leaf, 0) && !reads_joined) owed.epilogue = -1;  // as understood
      if (!reads_joined) out_.owed.push_back(std::move(owed));
    }
    for (Owed& owed : owed_through(out_, first_, joined_, through)) out_.owed.push_back(std::move(owed));
  }

  const Plan &first_, &second_;
  Plan out_;
  int joined_;                                // the buffer of first
  int input_;                                 // the buffer of second in whose place it comes, -1: a producer's x
  int reader_ = -1;                           // that producer
  Renaming names_;                            // of second
  std::vector<int> buffer_of_, producer_of_;  // of second, in the new plan
  int first_counter_ = 0;
  WaitRule complete_;
};

}  // namespace

Plan then(const Plan& first, const Plan& second, std::string_view output, std::string_view input) {
  return Joiner(first, second, output, input).join();
}

}  // namespace weft
