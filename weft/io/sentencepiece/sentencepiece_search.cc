#include "weft/io/sentencepiece/sentencepiece_search.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "weft/base/index.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

struct Symbol {
  std::string_view text;
  int previous, next;  // places; -1 beyond the ends
  bool frozen;         // a user-defined piece is never merged
};

struct Candidate {
  float score;
  int place;
  std::size_t bytes;  // of the joined text: out of date where the two symbols no longer have as many
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : place > other.place;
  }
};

class BpeRun {
 public:
  BpeRun(const PieceIndex& index, std::string_view text) : index_(index) {
    while (!text.empty()) {
      const std::size_t whole = index.user_defined.longest_prefix(text);
      const std::size_t length = whole > 0 ? whole : first_character(text).length;
      const int place = int_size(symbols_);
      symbols_.push_back({text.substr(0, length), place - 1, place + 1, whole > 0});
      text.remove_prefix(length);
    }
    if (!symbols_.empty()) symbols_.back().next = -1;
    for (int i = 0; i + 1 < int_size(symbols_); ++i) consider(i);
  }

  void merge_all() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      Symbol& left = at(best.place);
      if (left.text.empty() || left.next < 0 || left.text.size() + at(left.next).text.size() != best.bytes) continue;
      Symbol& right = at(left.next);
      const std::string_view joined(left.text.data(), best.bytes);
      if (is_unused(joined)) halves_.try_emplace(joined, std::pair(left.text, right.text));
      left.text = joined;
      left.next = right.next;
      right.text = {};
      if (left.next >= 0) at(left.next).previous = best.place;
      if (left.previous >= 0) consider(left.previous);
      consider(best.place);
    }
  }

  std::vector<PieceCut> cuts() {
    std::vector<PieceCut> result;
    for (int place = symbols_.empty() ? -1 : 0; place >= 0; place = at(place).next) add(at(place).text, result);
    return result;
  }

 private:
  Symbol& at(int place) { return symbols_[weft::at(place)]; }

  bool is_unused(std::string_view text) const {
    const auto found = index_.ids.find(text);
    return found != index_.ids.end() && index_.model->pieces[weft::at(found->second)].type == PieceType::unused;
  }

  void consider(int place) {
    const Symbol& left = at(place);
    if (left.next < 0 || left.frozen || at(left.next).frozen) return;
    const std::size_t bytes = left.text.size() + at(left.next).text.size();
    if (bytes > index_.longest) return;
    const auto found = index_.ids.find(std::string_view(left.text.data(), bytes));
    if (found == index_.ids.end()) return;
    candidates_.push({index_.model->pieces[weft::at(found->second)].score, place, bytes});
  }

  // Pieces marked unused serve as steps towards longer ones; one that is left over goes back to its halves.
  void add(std::string_view text, std::vector<PieceCut>& result) const {
    std::vector<std::string_view> left = {text};
    while (!left.empty()) {
      const std::string_view next = left.back();
      left.pop_back();
      const auto halves = is_unused(next) ? halves_.find(next) : halves_.end();
      if (halves != halves_.end()) {
        left.push_back(halves->second.second);
        left.push_back(halves->second.first);
        continue;
      }
      const auto found = index_.ids.find(next);
      result.push_back({next, found == index_.ids.end() ? index_.model->unknown : found->second});
    }
  }

  const PieceIndex& index_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> halves_;
};

struct BestPath {
  int id = -1;
  float score = 0;
  std::size_t start = std::numeric_limits<std::size_t>::max();  // of the piece that ends here
};

}  // namespace

PieceIndex::PieceIndex(const SentencePieceModel& source) : model(&source) {
  for (int i = 0; i < int_size(source.pieces); ++i) {
    const SentencePiece& piece = source.pieces[at(i)];
    if (piece.type == PieceType::normal) {
      lowest_score = std::min(lowest_score, piece.score);
      highest_score = std::max(highest_score, piece.score);
    }
    if (!piece.is_text()) continue;
    const int id = i;
    ids[piece.text] = id;
    longest = std::max(longest, piece.text.size());
    if (piece.type == PieceType::user_defined) user_defined.add(piece.text, id);
    if (source.kind == SentencePieceModel::Kind::unigram && piece.type != PieceType::unused) pieces.add(piece.text, id);
  }
}

std::vector<PieceCut> cut_bpe(const PieceIndex& index, std::string_view text) {
  BpeRun run(index, text);
  run.merge_all();
  return run.cuts();
}

// Sums are kept in f32 and compared with >, shorter pieces first, as the library does: equal texts give equal cuts.
std::vector<PieceCut> cut_unigram(const PieceIndex& index, std::string_view text) {
  constexpr float kUnknownPenalty = 10.0f;
  const float unknown_score = index.lowest_score - kUnknownPenalty;
  std::vector<BestPath> ends(text.size() + 1);
  const auto offer = [&](std::size_t start, std::size_t length, int id, float score) {
    BestPath& end = ends[start + length];
    const float total = score + ends[start].score;
    if (end.start == BestPath{}.start || total > end.score) end = {id, total, start};
  };
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t character = first_character(text.substr(start)).length;
    bool has_character = false;
    index.pieces.for_each_prefix(text.substr(start), [&](std::size_t length, int id) {
      const SentencePiece& piece = index.model->pieces[at(id)];
      const bool user = piece.type == PieceType::user_defined;
      const float bonus = static_cast<float>((static_cast<float>(length) * index.highest_score) - 0.1);
      offer(start, length, id, user ? bonus : piece.score);
      has_character = has_character || length == character;
    });
    if (!has_character) offer(start, character, index.model->unknown, unknown_score);
    start += character;
  }
  std::vector<PieceCut> cuts;
  for (std::size_t end = text.size(); end > 0; end = ends[end].start)
    cuts.push_back({text.substr(ends[end].start, end - ends[end].start), ends[end].id});
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace weft
