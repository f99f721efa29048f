// Zero-shot items through the engine. Units are sorted by length and batched, so that the feeds of a forward are alike.
// A unit of one choice is one feed: context and choice together. A unit of several is fed its context but for the last
// token, and then each choice in turn behind that token, the cache cut back in between: the last token is computed once
// a choice, which costs less than asking one row for several targets would complicate.
#include <algorithm>
#include <limits>
#include <numeric>

#include "weft/base/index.h"
#include "weft/llm/eval/eval.h"

namespace weft {
namespace {

std::int64_t first_rows(const TaskUnit& unit) {
  const auto context = std::ssize(unit.context);
  return unit.choices.size() > 1 ? std::max<std::int64_t>(1, context - 1) : context + std::ssize(unit.choices[0]) - 1;
}

std::int64_t longest_choice(const TaskUnit& unit) {
  std::size_t longest = 0;
  for (const auto& choice : unit.choices) longest = std::max(longest, choice.size());
  return static_cast<std::int64_t>(longest);
}

// What is known of a choice: its log-probability and the least lead of its tokens.
struct ChoiceScore {
  double sum = 0;
  double lead = std::numeric_limits<double>::infinity();
  bool greedy = true;
};

// One forward of many feeds, the last rows of each scored against the tokens of a choice.
class Batch {
 public:
  explicit Batch(Engine& engine) : engine_(engine) {}

  // Feeds tokens[from..] and then all but the last of `choice`. The row before each token of the choice scores it into
  // *score.
  void add(int sequence, std::span<const int> tokens, std::span<const int> choice, ChoiceScore* score) {
    Entry entry{sequence, std::vector<int>(tokens.begin(), tokens.end()), score, choice};
    if (!choice.empty()) entry.tokens.insert(entry.tokens.end(), choice.begin(), choice.end() - 1);
    if (!entry.tokens.empty()) entries_.push_back(std::move(entry));
  }

  void run() {
    if (entries_.empty()) return;
    std::vector<Feed> feeds;
    std::vector<int> targets;
    for (const Entry& entry : entries_) {
      feeds.push_back({entry.sequence, entry.tokens});
      targets.insert(targets.end(), entry.tokens.size() - entry.choice.size(), -1);
      targets.insert(targets.end(), entry.choice.begin(), entry.choice.end());
    }
    engine_.forward(feeds);
    const bool asked = std::any_of(targets.begin(), targets.end(), [](int t) { return t >= 0; });
    if (asked) take(engine_.score(targets));
    entries_.clear();
  }

 private:
  struct Entry {
    int sequence;
    std::vector<int> tokens;
    ChoiceScore* score;
    std::span<const int> choice;
  };

  void take(const std::vector<TokenScore>& found) {
    std::size_t row = 0;
    for (const Entry& entry : entries_) {
      row += entry.tokens.size() - entry.choice.size();
      for (std::size_t i = 0; i < entry.choice.size(); ++i, ++row) {
        entry.score->sum += found[row].log_probability;
        entry.score->lead = std::min(entry.score->lead, found[row].margin);
        entry.score->greedy &= found[row].is_greedy;
      }
    }
  }

  Engine& engine_;
  std::vector<Entry> entries_;
};

// Scores of all choices of the units at `order`, a batch that the engine has room for.
void score_batch(Engine& engine, std::span<const TaskUnit> units, std::span<const std::size_t> order,
                 std::vector<std::vector<ChoiceScore>>* scores) {
  Batch batch(engine);
  std::size_t most_choices = 0;
  for (int i = 0; i < int_size(order); ++i) {
    const TaskUnit& unit = units[order[at(i)]];
    (*scores)[order[at(i)]].resize(unit.choices.size());
    engine.clear(i);
    most_choices = std::max(most_choices, unit.choices.size());
    const std::span<const int> context(unit.context);
    if (unit.choices.size() == 1)
      batch.add(i, context, unit.choices[0], &(*scores)[order[at(i)]][0]);
    else
      batch.add(i, context.first(context.size() - 1), {}, nullptr);
  }
  batch.run();
  for (std::size_t choice = 0; most_choices > 1 && choice < most_choices; ++choice) {
    for (int i = 0; i < int_size(order); ++i) {
      const TaskUnit& unit = units[order[at(i)]];
      if (unit.choices.size() < 2 || choice >= unit.choices.size()) continue;
      engine.truncate(i, std::ssize(unit.context) - 1);
      batch.add(i, std::span<const int>(unit.context).last(1), unit.choices[choice], &(*scores)[order[at(i)]][choice]);
    }
    batch.run();
  }
}

// How many of the units from `begin` on go together: every forward of theirs has at most the engine's rows.
std::size_t batch_end(const EngineOptions& options, std::span<const TaskUnit> units, std::span<const std::size_t> order,
                      std::size_t begin) {
  std::int64_t first = 0, later = 0;
  std::size_t end = begin;
  for (; end < order.size() && end - begin < num(options.sequences); ++end) {
    first += first_rows(units[order[end]]);
    later += longest_choice(units[order[end]]);
    if (end > begin && std::max(first, later) > options.rows) break;
  }
  return end;
}

ItemScore judge(const TaskItem& item, std::span<const ChoiceScore> choices) {
  if (item.kind == TaskKind::last_word) return {choices[0].greedy, choices[0].lead};
  std::vector<double> sums;
  for (const ChoiceScore& choice : choices) sums.push_back(choice.sum);
  return judge_continuation(item, sums);
}

}  // namespace

UnitSizes unit_sizes(std::span<const TaskUnit> units) {
  UnitSizes sizes;
  std::int64_t rows = 0;
  for (const TaskUnit& unit : units) {
    rows += first_rows(unit);
    sizes.capacity = std::max(sizes.capacity, std::ssize(unit.context) + longest_choice(unit));
  }
  if (!units.empty()) sizes.mean_rows = std::max<std::int64_t>(1, rows / std::ssize(units));
  return sizes;
}

std::vector<ItemScore> score_items(Engine& engine, std::span<const TaskItem> items, std::span<const TaskUnit> units,
                                   const EvalProgress& progress) {
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool many_a = units[a].choices.size() > 1, many_b = units[b].choices.size() > 1;
    return many_a != many_b ? many_b : first_rows(units[a]) > first_rows(units[b]);
  });
  std::vector<std::vector<ChoiceScore>> scores(units.size());
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    end = batch_end(engine.options(), units, order, begin);
    score_batch(engine, units, std::span(order).subspan(begin, end - begin), &scores);
    if (progress) progress("items", static_cast<std::int64_t>(end), std::ssize(order));
  }
  std::vector<std::vector<ChoiceScore>> by_item(items.size());
  for (std::size_t u = 0; u < units.size(); ++u)
    by_item[units[u].item].insert(by_item[units[u].item].end(), scores[u].begin(), scores[u].end());
  std::vector<ItemScore> results;
  for (std::size_t i = 0; i < items.size(); ++i) results.push_back(judge(items[i], by_item[i]));
  return results;
}

}  // namespace weft
