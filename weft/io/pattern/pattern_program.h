// What a regular expression is compiled to (pattern.h): instructions for a machine that keeps a list of places to go
// back to.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "weft/io/pattern/pattern.h"

namespace weft {

// A set of characters: ranges and properties, perhaps turned round.
struct PointSet {
  struct Property {
    bool (*has)(char32_t);
    bool negated = false;
  };
  std::vector<std::pair<char32_t, char32_t>> ranges;
  std::vector<Property> properties;
  bool negated = false;

  bool contains(char32_t point) const;
};

struct PatternStep {
  enum class Kind {
    one,        // a character of `set`
    fork,       // goes on at `next`; later, where that failed, at `other`
    jump,       // goes on at `next`
    ahead,      // the part from here + 1 up to `next` matches here, and takes nothing
    not_ahead,  // it does not match here
    atomic,     // it matches, and what it took is never given back
    done
  };
  Kind kind = Kind::done;
  std::size_t next = 0, other = 0;
  PointSet set;
};

struct Pattern::Program {
  std::vector<PatternStep> steps;
};

// Throws bad_input.
std::vector<PatternStep> compile_pattern(std::string_view text, std::string_view where);

}  // namespace weft
