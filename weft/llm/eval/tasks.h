// Zero-shot items, one JSON object per line (models/weft-16/README.md; tools/paper_tasks.py writes the papers' data
// sets so):
//
//   {"task": "last_word", "context": "...", "target": " word"}                 right when every token of the target is
//                                                                              the most probable one in its turn
//   {"task": "continuation", "context": "...", "choices": [...], "answer": 2}  right when that choice has the largest
//                                                                              log-probability per UTF-8 byte
// Further fields:
//   "name": "arc_easy"        items are counted by this name; without it by "task"
//   "contexts": [...]         instead of "context": one for each choice (WinoGrande)
//   "score": "sum" | "byte"   continuation: the log-probability itself, or per byte (the default)
//   "id"                      anything; not read
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/base/json.h"

namespace weft {

class Tokenizer;

enum class TaskKind { last_word, continuation };

struct TaskItem {
  TaskKind kind = TaskKind::last_word;
  std::string name;                   // of the task it counts for
  std::vector<std::string> contexts;  // one, or one for each choice
  std::vector<std::string> choices;   // last_word: the target alone
  int answer = 0;
  bool per_byte = true;
};

// Throws bad_input naming file, line and field. `limit` items of each name at most; 0: all.
std::vector<TaskItem> load_tasks(const std::string& path, std::int64_t limit = 0);
TaskItem parse_task(const Json& object, const std::string& where);

// A context and what may follow it, as tokens. The choices of one item that share a context lie in one unit, so that
// the context is computed once.
struct TaskUnit {
  std::size_t item = 0;
  std::size_t first_choice = 0;           // of the item
  std::vector<int> context;               // at least one token
  std::vector<std::vector<int>> choices;  // each at least one token
  bool cut = false;                       // the context lost tokens at its beginning, to fit
};

// As lm-evaluation-harness cuts it: the tokens of context + choice, less as many as the context alone has. (For
// byte-level BPE and a choice that begins with a space these are tokens(context) and tokens(choice).) A tokenizer that
// adds a bos puts it first; an empty context is the bos, or the eos. At most `capacity` tokens of context and choice
// together.
std::vector<TaskUnit> task_units(std::span<const TaskItem> items, const Tokenizer& tokenizer, std::int64_t capacity);

// What came of an item.
struct ItemScore {
  bool right = false;
  // How far it was from the other answer. last_word: the least lead of a target's token over the best other logit
  // (below 0: how far behind). continuation: the answer's score less the best other choice's.
  double margin = 0;
};

// `sums` has, for every item and each of its choices, the summed log-probability; of a continuation, who wins (the
// first of equals).
ItemScore judge_continuation(const TaskItem& item, std::span<const double> sums);

}  // namespace weft
