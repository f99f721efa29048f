// From the text of a regular expression to its program.
#include <array>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/pattern/pattern_program.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

constexpr std::size_t kMostPatternBytes = 4096, kMostPatternSteps = 20'000;
constexpr int kMostPatternDepth = 32;
constexpr std::size_t kMostRepeats = 1000;

template <Category... wanted>
bool is_of(char32_t point) {
  const Category category = category_of(point);
  return ((category == wanted) || ...);
}
bool is_word(char32_t point) { return is_letter(point) || is_mark(point) || is_of<Category::Nd, Category::Pc>(point); }

struct NamedProperty {
  std::string_view name;
  bool (*has)(char32_t);
};
constexpr std::array<NamedProperty, 16> kProperties{{{"L", is_letter},
                                                     {"Lu", is_of<Category::Lu>},
                                                     {"Ll", is_of<Category::Ll>},
                                                     {"Lt", is_of<Category::Lt>},
                                                     {"Lm", is_of<Category::Lm>},
                                                     {"Lo", is_of<Category::Lo>},
                                                     {"M", is_mark},
                                                     {"Mn", is_of<Category::Mn>},
                                                     {"Mc", is_of<Category::Mc>},
                                                     {"N", is_number},
                                                     {"Nd", is_of<Category::Nd>},
                                                     {"Nl", is_of<Category::Nl>},
                                                     {"No", is_of<Category::No>},
                                                     {"P", is_punctuation},
                                                     {"S", is_symbol},
                                                     {"Z", is_of<Category::Zs, Category::Zl, Category::Zp>}}};

using Steps = std::vector<PatternStep>;

// Every part is compiled to steps that are placed one behind another; targets count from the part's beginning.
void append(Steps& out, const Steps& part) {
  const std::size_t base = out.size();
  for (PatternStep step : part) {
    step.next += base;
    step.other += base;
    out.push_back(std::move(step));
  }
}

PatternStep step_to(PatternStep::Kind kind, std::size_t next, std::size_t other = 0) {
  return {.kind = kind, .next = next, .other = other};
}

// The part as a program of its own, which a step of `kind` runs before it goes on behind it.
Steps guarded(PatternStep::Kind kind, const Steps& part) {
  Steps out{step_to(kind, part.size() + 2)};
  append(out, part);
  out.push_back({});
  return out;
}

class PatternParser {
 public:
  PatternParser(std::string_view text, std::string_view where) : text_(text), where_(where) {
    if (text.size() > kMostPatternBytes) refuse("it is longer than 4096 bytes");
  }

  Steps parse() {
    Steps steps = alternatives();
    if (at_ < text_.size()) refuse("a ) without its (");
    steps.push_back({});
    return steps;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    bad_input("{}: the splitting pattern {} is not read here: {}", where_, weft::quoted(text_), why);
  }

  bool at_end() const { return at_ >= text_.size(); }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  char32_t take_point() {
    if (at_end()) refuse("it is cut short");
    const Character next = first_character(text_.substr(at_));
    at_ += next.length;
    return next.point;
  }
  void check_size(const Steps& steps) const {
    if (steps.size() > kMostPatternSteps) refuse("its repeats make it too long");
  }

  // Branches are tried from the left: each forks to all that is right of it.
  Steps alternatives() {
    if (++depth_ > kMostPatternDepth) refuse("its groups are nested too deep");
    std::vector<Steps> branches{sequence()};
    while (take("|")) branches.push_back(sequence());
    --depth_;
    Steps out = std::move(branches.back());
    for (std::size_t i = branches.size() - 1; i-- > 0;) {
      Steps both{step_to(PatternStep::Kind::fork, 1, branches[i].size() + 2)};
      append(both, branches[i]);
      both.push_back(step_to(PatternStep::Kind::jump, both.size() + 1 + out.size()));
      append(both, out);
      out = std::move(both);
      check_size(out);
    }
    return out;
  }

  Steps sequence() {
    Steps out;
    while (!at_end() && text_[at_] != '|' && text_[at_] != ')') {
      append(out, repeated(atom()));
      check_size(out);
    }
    return out;
  }

  std::optional<std::size_t> number() {
    const std::size_t begin = at_;
    std::size_t value = 0;
    while (!at_end() && text_[at_] >= '0' && text_[at_] <= '9' && value <= kMostRepeats)
      value = 10 * value + static_cast<std::size_t>(text_[at_++] - '0');
    return at_ > begin ? std::optional(value) : std::nullopt;
  }

  Steps repeated(const Steps& part) {
    constexpr std::size_t kNoMost = SIZE_MAX;
    std::size_t least = 1, most = 1;
    if (take("*")) {
      least = 0, most = kNoMost;
    } else if (take("+")) {
      most = kNoMost;
    } else if (take("?")) {
      least = 0;
    } else if (take("{")) {
      const auto first = number();
      const bool comma = take(",");
      const auto second = comma ? number() : first;
      if (!first || !take("}")) refuse("its { } has no numbers");
      least = *first, most = second.value_or(kNoMost);
      if (least > kMostRepeats || (most != kNoMost && (most > kMostRepeats || most < least)))
        refuse("its { } is out of range");
    } else {
      return part;
    }
    if (take("?")) refuse("repeats that take as little as possible are not done");
    const Steps out = loop(part, least, most == kNoMost ? std::nullopt : std::optional(most));
    return take("+") ? guarded(PatternStep::Kind::atomic, out) : out;
  }

  Steps loop(const Steps& part, std::size_t least, std::optional<std::size_t> most) {
    Steps out;
    for (std::size_t i = 0; i < least; ++i, check_size(out)) append(out, part);
    if (!most) {
      const std::size_t begin = out.size();
      out.push_back(step_to(PatternStep::Kind::fork, begin + 1, begin + part.size() + 2));
      append(out, part);
      out.push_back(step_to(PatternStep::Kind::jump, begin));
      return out;
    }
    const std::size_t end = out.size() + (*most - least) * (part.size() + 1);
    for (std::size_t i = least; i < *most; ++i, check_size(out)) {
      out.push_back(step_to(PatternStep::Kind::fork, out.size() + 1, end));
      append(out, part);
    }
    return out;
  }

  Steps atom() {
    if (take("(")) return group();
    PointSet set;
    if (take("[")) {
      set = point_class();
    } else if (take(".")) {
      set.ranges = {{'\n', '\n'}};
      set.negated = true;
    } else if (take("\\")) {
      if (const auto point = escaped(set)) add_point(set, *point);
    } else {
      const char32_t point = take_point();
      if (point == '*' || point == '+' || point == '?' || point == '{' || point == '^' || point == '$')
        refuse("a repeat or an anchor where a character should be");
      add_point(set, point);
    }
    return {PatternStep{.kind = PatternStep::Kind::one, .set = std::move(set)}};
  }

  Steps group() {
    Steps out;
    const bool any_case = any_case_;
    if (take("?!"))
      out = guarded(PatternStep::Kind::not_ahead, alternatives());
    else if (take("?="))
      out = guarded(PatternStep::Kind::ahead, alternatives());
    else if (take("?>"))
      out = guarded(PatternStep::Kind::atomic, alternatives());
    else if (take("?i:"))
      any_case_ = true, out = alternatives();
    else if (take("?:") || at_end() || text_[at_] != '?')
      out = alternatives();
    else
      refuse("groups that begin so are not done");
    any_case_ = any_case;
    if (!take(")")) refuse("a ( without its )");
    return out;
  }

  // A letter in any case; s and k have a third form each.
  void add_point(PointSet& set, char32_t point) const {
    set.ranges.emplace_back(point, point);
    if (!any_case_) return;
    if (point > 0x7F) refuse("(?i:..) is done for letters of ASCII alone");
    const char32_t lower = point | 0x20;
    if (lower < 'a' || lower > 'z') return;
    set.ranges.emplace_back(lower, lower);
    set.ranges.emplace_back(lower - 0x20, lower - 0x20);
    if (lower == 's') set.ranges.emplace_back(0x17F, 0x17F);
    if (lower == 'k') set.ranges.emplace_back(0x212A, 0x212A);
  }

  char32_t hex(std::size_t digits, bool braced) {
    char32_t value = 0;
    std::size_t count = 0;
    for (; count < digits && !at_end() && text_[at_] != '}'; ++count, ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'                     ? c - '0'
                        : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                                 : -1;
      if (digit < 0) refuse("a code point is not in hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (count == 0 || (braced ? !take("}") : count < digits) || value > 0x10FFFF) refuse("a code point is damaged");
    return value;
  }

  void property(PointSet& set, bool negated) {
    if (!take("{")) refuse("\\p without {..}");
    if (take("^")) negated = !negated;
    const std::size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) refuse("\\p{ without its }");
    const std::string_view name = text_.substr(at_, end - at_);
    for (const NamedProperty& known : kProperties)
      if (known.name == name) {
        at_ += name.size() + 1;
        set.properties.push_back({known.has, negated});
        return;
      }
    refuse("one of its properties \\p{..} is not known");
  }

  // Behind a backslash: one character, or nothing where it stood for a property, which went into the set.
  std::optional<char32_t> escaped(PointSet& set) {
    const char32_t letter = take_point();
    const auto add = [&](bool (*has)(char32_t), bool negated) {
      set.properties.push_back({has, negated});
      return std::nullopt;
    };
    switch (letter) {
      case 's':
      case 'S':
        return add(is_space, letter == 'S');
      case 'd':
      case 'D':
        return add(is_of<Category::Nd>, letter == 'D');
      case 'w':
      case 'W':
        return add(is_word, letter == 'W');
      case 'p':
      case 'P':
        property(set, letter == 'P');
        return std::nullopt;
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'x':
        return take("{") ? hex(6, true) : hex(2, false);
      case 'u':
        return hex(4, false);
      default:
        if (letter > 0x7F || is_letter(letter) || is_number(letter)) refuse("one of its escapes \\.. is not known");
        return letter;
    }
  }

  // Behind a [ and up to its ].
  PointSet point_class() {
    PointSet set;
    set.negated = take("^");
    for (bool first = true; first || !take("]"); first = false) {
      if (text_.substr(at_).starts_with("[") || text_.substr(at_).starts_with("&&"))
        refuse("classes within classes are not done");
      const std::optional<char32_t> low = take("\\") ? escaped(set) : std::optional(take_point());
      if (!low) continue;
      const bool is_range = text_.substr(at_).starts_with("-") && !text_.substr(at_).starts_with("-]");
      if (!is_range) {
        add_point(set, *low);
        continue;
      }
      ++at_;
      const std::optional<char32_t> high = take("\\") ? escaped(set) : std::optional(take_point());
      if (!high || *high < *low || any_case_) refuse("a range of characters is damaged");
      set.ranges.emplace_back(*low, *high);
    }
    return set;
  }

  std::string_view text_, where_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool any_case_ = false;
};

}  // namespace

std::vector<PatternStep> compile_pattern(std::string_view text, std::string_view where) {
  return PatternParser(text, where).parse();
}

}  // namespace weft
