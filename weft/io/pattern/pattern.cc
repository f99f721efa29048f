#include "weft/io/pattern/pattern.h"

#include <algorithm>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/pattern/pattern_program.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

// One attempt at one place. Where a step has been at a place before, what follows has failed already.
class PatternRun {
 public:
  PatternRun(const std::vector<PatternStep>& steps, std::string_view text) : steps_(steps), text_(text) {}

  // The end of the match from `start` on by the steps from `first` to their `done`; kNone where there is none.
  std::size_t end_of_match(std::size_t first, std::size_t start) {
    begin_ = start;
    visited_.clear();
    todo_.assign(1, {first, start});
    while (!todo_.empty()) {
      auto [step, at] = todo_.back();
      todo_.pop_back();
      while (step != kNone && !was_here(step, at))
        if (steps_[step].kind == PatternStep::Kind::done)
          return at;
        else
          go(step, at);
    }
    return kNone;
  }

 private:
  struct Place {
    std::size_t step, at;
  };

  bool was_here(std::size_t step, std::size_t at) {
    const std::size_t bit = (at - begin_) * steps_.size() + step;
    if (bit / 64 >= visited_.size()) visited_.resize(bit / 64 + 1 + visited_.size() / 2, 0);
    const std::uint64_t mask = std::uint64_t{1} << bit % 64;
    const bool was = (visited_[bit / 64] & mask) != 0;
    visited_[bit / 64] |= mask;
    return was;
  }

  // Goes one step on; `step` is kNone where the text does not fit.
  void go(std::size_t& step, std::size_t& at) {
    const PatternStep& now = steps_[step];
    switch (now.kind) {
      case PatternStep::Kind::one: {
        if (at >= text_.size()) return void(step = kNone);
        const Character next = first_character(text_.substr(at));
        if (!now.set.contains(next.point)) return void(step = kNone);
        at += next.length;
        return void(++step);
      }
      case PatternStep::Kind::fork:
        todo_.push_back({now.other, at});
        return void(step = now.next);
      case PatternStep::Kind::jump:
        return void(step = now.next);
      case PatternStep::Kind::done:
        return;
      default:
        break;
    }
    const std::size_t end = PatternRun(steps_, text_).end_of_match(step + 1, at);
    const bool wants = now.kind != PatternStep::Kind::not_ahead;
    if (now.kind == PatternStep::Kind::atomic && end != kNone) at = end;
    step = (end != kNone) == wants ? now.next : kNone;
  }

  const std::vector<PatternStep>& steps_;
  std::string_view text_;
  std::size_t begin_ = 0;
  std::vector<Place> todo_;
  std::vector<std::uint64_t> visited_;
};

}  // namespace

bool PointSet::contains(char32_t point) const {
  const auto in_range = [&](const std::pair<char32_t, char32_t>& range) {
    return point >= range.first && point <= range.second;
  };
  const auto has = [&](const Property& property) { return property.has(point) != property.negated; };
  const bool in =
      std::any_of(ranges.begin(), ranges.end(), in_range) || std::any_of(properties.begin(), properties.end(), has);
  return in != negated;
}

Pattern Pattern::parse(std::string_view text, std::string_view where) {
  if (text.empty()) bad_input("{}: the splitting pattern is empty; leave the stage out", where);
  Pattern pattern;
  pattern.program_ = std::make_shared<const Program>(Program{compile_pattern(text, where)});
  return pattern;
}

std::size_t Pattern::match(std::string_view text, std::size_t at) const {
  if (program_ == nullptr || at >= text.size()) return 0;
  const std::size_t end = PatternRun(program_->steps, text).end_of_match(0, at);
  return end == kNone ? 0 : end - at;
}

}  // namespace weft
