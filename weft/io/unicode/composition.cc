#include "weft/io/unicode/composition.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

struct Parts {
  char32_t whole, first, second;  // second 0: one character stands for another
  bool composes;                  // whether NFC puts the two together again
};
struct ClassRange {
  char32_t first, last;
  int order;  // canonical combining class: marks behind a letter are sorted by it
};

#include "weft/io/unicode/composition_tables.inc"

constexpr char32_t kSyllables = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;  // Hangul is by arithmetic
constexpr char32_t kNumLeads = 19, kNumVowels = 21, kNumTails = 28, kNumSyllables = kNumLeads * kNumVowels * kNumTails;

// A character, or a malformed byte: the latter stays where it is, and nothing is put together across it.
struct Unit {
  char32_t point;
  int order;
  char malformed = 0;
  bool is_byte = false;
};

int order_of(char32_t point) {
  if (point < 0x300) return 0;
  const ClassRange* found =
      std::lower_bound(std::begin(kClasses), std::end(kClasses), point,
                       [](const ClassRange& range, char32_t wanted) { return range.last < wanted; });
  return found != std::end(kClasses) && found->first <= point ? found->order : 0;
}

void decompose(char32_t point, std::vector<Unit>& out) {
  if (point >= kSyllables && point < kSyllables + kNumSyllables) {
    const char32_t index = point - kSyllables;
    out.push_back({kLead + index / (kNumVowels * kNumTails), 0});
    out.push_back({kVowel + index % (kNumVowels * kNumTails) / kNumTails, 0});
    if (index % kNumTails > 0) out.push_back({kTail + index % kNumTails, 0});
    return;
  }
  const Parts* found = point < 0xC0
                           ? std::end(kParts)
                           : std::lower_bound(std::begin(kParts), std::end(kParts), point,
                                              [](const Parts& p, char32_t wanted) { return p.whole < wanted; });
  if (found == std::end(kParts) || found->whole != point) {
    out.push_back({point, order_of(point)});
    return;
  }
  decompose(found->first, out);
  if (found->second != 0) out.push_back({found->second, order_of(found->second)});
}

// Marks between two letters in the order of their classes; equal ones stay as they were.
void sort_marks(std::vector<Unit>& units) {
  for (auto at = units.begin(); at != units.end();) {
    if (at->order == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, units.end(), [](const Unit& unit) { return unit.order == 0; });
    std::stable_sort(at, end, [](const Unit& a, const Unit& b) { return a.order < b.order; });
    at = end;
  }
}

std::vector<Unit> units_of(std::string_view text) {
  std::vector<Unit> units;
  units.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind == Utf8::complete) {
      decompose(step.point, units);
      text.remove_prefix(step.length);
    } else {
      units.push_back({0, 0, text[0], true});
      text.remove_prefix(1);
    }
  }
  sort_marks(units);
  return units;
}

std::string text_of(const std::vector<Unit>& units) {
  std::string text;
  for (const Unit& unit : units)
    if (unit.is_byte)
      text += unit.malformed;
    else
      append_utf8(unit.point, text);
  return text;
}

// The character that two become; 0 where they stay apart.
char32_t composition_of(char32_t first, char32_t second) {
  static const auto* const kPairs = [] {
    auto* pairs = new std::unordered_map<std::uint64_t, char32_t>;
    for (const Parts& parts : kParts)
      if (parts.composes) (*pairs)[std::uint64_t{parts.first} << 32 | parts.second] = parts.whole;
    return pairs;
  }();
  if (first >= kLead && first < kLead + kNumLeads && second >= kVowel && second < kVowel + kNumVowels)
    return kSyllables + ((first - kLead) * kNumVowels + (second - kVowel)) * kNumTails;
  if (first >= kSyllables && first < kSyllables + kNumSyllables && (first - kSyllables) % kNumTails == 0 &&
      second > kTail && second < kTail + kNumTails)
    return first + (second - kTail);
  const auto found = kPairs->find(std::uint64_t{first} << 32 | second);
  return found == kPairs->end() ? 0 : found->second;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

}  // namespace

std::string decomposed(std::string_view text) { return is_ascii(text) ? std::string(text) : text_of(units_of(text)); }

std::string composed(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  const std::vector<Unit> units = units_of(text);
  std::vector<Unit> out;
  std::ptrdiff_t starter = -1;  // the last letter in `out` that marks can join
  for (const Unit& unit : units) {
    // A mark joins unless another of its class, or a letter, stands between.
    const bool free = starter >= 0 && !unit.is_byte &&
                      (starter + 1 == std::ssize(out) || (out.back().order != 0 && out.back().order < unit.order));
    if (const char32_t whole = free ? composition_of(out[static_cast<std::size_t>(starter)].point, unit.point) : 0) {
      out[static_cast<std::size_t>(starter)].point = whole;
      continue;
    }
    out.push_back(unit);
    if (unit.order == 0) starter = unit.is_byte ? -1 : std::ssize(out) - 1;
  }
  return text_of(out);
}

}  // namespace weft
