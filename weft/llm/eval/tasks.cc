#include "weft/llm/eval/tasks.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/names.h"
#include "weft/io/text/jsonl.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

constexpr Names<TaskKind, 2> kKinds{{{TaskKind::last_word, "last_word"}, {TaskKind::continuation, "continuation"}}};
constexpr std::size_t kMostChoices = 64;

std::vector<std::string> get_strings(const Json& object, std::string_view key, const std::string& where) {
  const Json& values = get_array(object, key, where);
  if (values.empty() || values.size() > kMostChoices)
    bad_input("{}: \"{}\" has {} strings; give 1 to {}", where, key, values.size(), kMostChoices);
  std::vector<std::string> strings;
  for (const Json& value : values) {
    if (!value.is_string()) bad_input("{}: item {} of \"{}\" is no string; give one", where, strings.size(), key);
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

void read_choices(const Json& object, const std::string& where, TaskItem* item) {
  item->choices = get_strings(object, "choices", where);
  item->answer = get_small(object, "answer", where, 0, std::ssize(item->choices) - 1);
  if (find_field(object, "score", where)) {
    const std::string score = get_string(object, "score", where);
    if (score != "sum" && score != "byte") bad_input("{}: \"score\" is \"{}\"; use sum or byte", where, score);
    item->per_byte = score == "byte";
  }
  if (find_field(object, "contexts", where)) {
    item->contexts = get_strings(object, "contexts", where);
    if (item->contexts.size() != item->choices.size())
      bad_input("{}: {} \"contexts\" for {} \"choices\"; give one for each, or one \"context\" for all", where,
                item->contexts.size(), item->choices.size());
    const bool same = std::all_of(item->contexts.begin(), item->contexts.end(),
                                  [&](const std::string& c) { return c == item->contexts[0]; });
    if (same) item->contexts.resize(1);
  }
}

// The tokens of one context and one choice.
struct Coded {
  std::vector<int> context, choice;
};

Coded coded(const Tokenizer& tokenizer, const std::string& context, const std::string& choice, std::size_t taken) {
  std::vector<int> whole = tokenizer.encode(context + choice);
  taken = std::min(taken, whole.size());
  Coded out;
  out.context.assign(whole.begin(), whole.begin() + taken);
  out.choice.assign(whole.begin() + taken, whole.end());
  if (out.choice.empty()) out.choice = tokenizer.encode(choice);  // the choice grew into the context's last token
  return out;
}

void put_start(const Tokenizer& tokenizer, std::vector<int>* context) {
  if (tokenizer.adds_bos() && tokenizer.bos()) context->insert(context->begin(), *tokenizer.bos());
  if (!context->empty()) return;
  const auto start = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
  if (!start)
    bad_input("an item has an empty context, and the tokenizer has no bos token to put there; give a context");
  context->push_back(*start);
}

// The last tokens of the context that leave room for the longest choice.
void cut_context(std::int64_t capacity, TaskUnit* unit) {
  std::size_t longest = 0;
  for (const auto& choice : unit->choices) longest = std::max(longest, choice.size());
  const auto room = num(capacity);
  if (longest + 1 > room)
    bad_input("a choice of item {} has {} tokens, more than the model's length of {}; leave the item out", unit->item,
              longest, capacity);
  if (unit->context.size() + longest <= room) return;
  unit->context.erase(unit->context.begin(), unit->context.end() - (room - longest));
  unit->cut = true;
}

}  // namespace

TaskItem parse_task(const Json& object, const std::string& where) {
  check_fields(object, {"id", "task", "name", "context", "contexts", "target", "choices", "answer", "score"}, where);
  TaskItem item;
  const std::string task = get_string(object, "task", where);
  try {
    item.kind = parse_name(kKinds, "task", task);
  } catch (const Error& error) {
    bad_input("{}: {}", where, error.what());
  }
  item.name = find_field(object, "name", where) ? get_string(object, "name", where) : task;
  if (item.name.empty()) bad_input("{}: \"name\" is empty; give the name of the task", where);
  if (item.kind == TaskKind::last_word)
    item.choices = {get_string(object, "target", where)};
  else
    read_choices(object, where, &item);
  if (item.contexts.empty()) item.contexts = {get_string(object, "context", where)};
  for (const std::string& choice : item.choices)
    if (choice.empty()) bad_input("{}: a target or choice is empty; give at least a word", where);
  return item;
}

std::vector<TaskItem> load_tasks(const std::string& path, std::int64_t limit) {
  std::vector<TaskItem> items;
  std::map<std::string, std::int64_t> counts;
  for_each_line(path, [&](const Json& object, const std::string& where) {
    TaskItem item = parse_task(object, where);
    if (limit > 0 && ++counts[item.name] > limit) return;
    items.push_back(std::move(item));
  });
  if (items.empty()) bad_input("{}: no items; give one JSON object a line", path);
  return items;
}

std::vector<TaskUnit> task_units(std::span<const TaskItem> items, const Tokenizer& tokenizer, std::int64_t capacity) {
  std::vector<TaskUnit> units;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const TaskItem& item = items[i];
    const std::size_t first_of_item = units.size();
    std::size_t taken = 0;
    for (std::size_t c = 0; c < item.choices.size(); ++c) {
      const std::string& context = item.contexts[item.contexts.size() > 1 ? c : 0];
      if (c == 0 || item.contexts.size() > 1) taken = tokenizer.encode(context).size();
      Coded pair = coded(tokenizer, context, item.choices[c], taken);
      put_start(tokenizer, &pair.context);
      // A choice may change the context's last tokens; then it does not share them with the choices before it.
      if (c == 0 || units.back().context != pair.context) units.push_back({i, c, std::move(pair.context), {}, false});
      units.back().choices.push_back(std::move(pair.choice));
    }
    for (std::size_t u = first_of_item; u < units.size(); ++u) cut_context(capacity, &units[u]);
  }
  return units;
}

ItemScore judge_continuation(const TaskItem& item, std::span<const double> sums) {
  std::vector<double> scores(sums.begin(), sums.end());
  if (item.per_byte)
    for (std::size_t c = 0; c < scores.size(); ++c) scores[c] /= static_cast<double>(item.choices[c].size());
  const auto answer = num(item.answer);
  double best_other = -1e300;
  for (std::size_t c = 0; c < scores.size(); ++c)
    if (c != answer) best_other = std::max(best_other, scores[c]);
  const auto winner = num(std::max_element(scores.begin(), scores.end()) - scores.begin());
  return {winner == answer, scores.size() > 1 ? scores[answer] - best_other : 0};
}

}  // namespace weft
