// Texts of several clients that are made together. A text takes a free sequence of the engine as soon as there is one:
// nobody waits for a batch to fill or to end. A pass has the next token of every text that grows, and beside them rows
// of prompts; between texts that grow these are few, so that a long prompt holds nobody up for long.
//
// Sequences keep what they have when their text has ended. A new prompt begins with the longest beginning that any of
// them has: its own sequence where it continues one, as the turns of a conversation do, else a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/serve/answer.h"
#include "weft/serve/pass.h"
#include "weft/serve/serve_counts.h"

namespace weft {

struct BatchOptions {
  int sequences = 1;
  std::int64_t capacity = 0;      // tokens of a sequence
  std::int64_t rows = 512;        // of a pass at most; at least `sequences`
  std::int64_t rows_beside = 64;  // of prompts, beside texts that grow
  std::vector<int> eos;
};

class Batch {
 public:
  // Tokenizer and counts outlive it.
  Batch(const Tokenizer& tokenizer, BatchOptions options, ServeCounts& counts);
  ~Batch();

  bool has_room() const;                       // a sequence is free
  bool is_idle() const;                        // all are
  void admit(std::shared_ptr<Answer> answer);  // there is room

  Pass compose();                       // texts that were given up are in no pass any more
  void take(const PassResult& result);  // of the pass that was composed last
  void fail_all(const std::string& sentence);

 private:
  struct Text;
  struct Slot {
    std::vector<int> tokens;     // what the sequence has, then what is to enter it
    std::int64_t fed = 0;        // of these, that it has
    std::int64_t turn = 0;       // when it was last taken
    std::unique_ptr<Text> text;  // null: free
  };
  bool grows(const Slot& slot) const;
  std::int64_t common(const Slot& slot, const std::vector<int>& prompt) const;
  int sequence_for(const std::vector<int>& prompt, PassBegin* begin) const;
  void add_part(int sequence, std::int64_t count, Pass* pass);
  void add_token(Slot& slot, int token);
  void end(Slot& slot, Ending ending);
  void release(Slot& slot);

  const Tokenizer& tokenizer_;
  BatchOptions options_;
  ServeCounts& counts_;
  std::vector<Slot> slots_;  // by sequence
  std::vector<PassBegin> begins_;
  std::vector<int> asked_;  // sequences, of the last pass
  std::int64_t turns_ = 0;
};

}  // namespace weft
