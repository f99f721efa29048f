#include "weft/io/text/merges.h"

#include <queue>

#include "weft/base/index.h"

namespace weft {

struct Merges::Symbol {
  int token;
  int previous, next;  // places; -1 beyond the ends
};

struct Merges::Candidate {
  int rank, place;
  int left, right, merged;  // out of date where the tokens at and after `place` are no longer these

  bool operator<(const Candidate& other) const {  // the largest is merged first
    return rank != other.rank ? rank > other.rank : place > other.place;
  }
};

// One word being merged: a list of symbols, linked through places that never move.
class Merges::Run {
 public:
  Run(const Merges& merges, const std::vector<int>& tokens) : merges_(merges), symbols_(tokens.size()) {
    const int count = int_size(tokens);
    for (int i = 0; i < count; ++i) symbols_[weft::at(i)] = {tokens[weft::at(i)], i - 1, i + 1 < count ? i + 1 : -1};
    for (int i = 0; i + 1 < count; ++i) consider(i);
  }

  void merge_all() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      Symbol& left = at(best.place);
      if (left.token != best.left || left.next < 0 || at(left.next).token != best.right) continue;
      Symbol& right = at(left.next);
      left.token = best.merged;
      right.token = -1;
      left.next = right.next;
      if (left.next >= 0) at(left.next).previous = best.place;
      if (left.previous >= 0) consider(left.previous);
      consider(best.place);
    }
  }

  void copy_to(std::vector<int>& tokens) const {
    tokens.clear();
    for (int place = 0; place >= 0; place = symbols_[weft::at(place)].next)
      tokens.push_back(symbols_[weft::at(place)].token);
  }

 private:
  Symbol& at(int place) { return symbols_[weft::at(place)]; }

  void consider(int place) {
    const Symbol& left = at(place);
    if (left.next < 0) return;
    const int right = at(left.next).token;
    if (const Merge* merge = merges_.find(left.token, right))
      candidates_.push({merge->rank, place, left.token, right, merge->merged});
  }

  const Merges& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

void Merges::add(int left, int right, int merged) { pairs_[key(left, right)] = {count_++, merged}; }

void Merges::apply(std::vector<int>& tokens) const {
  if (tokens.size() < 2) return;
  Run run(*this, tokens);
  run.merge_all();
  run.copy_to(tokens);
}

}  // namespace weft
