// Mutants of a file, from a seed: what a parser must take or refuse in a sentence, and never crash on. Run with
// sanitizers by `make test`, which is when an overrun shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {

class FileMutator {
 public:
  FileMutator(std::string original, unsigned seed) : original_(std::move(original)), random_(seed) {}

  // One to four changes: bits flipped, a byte set, a stretch removed, doubled or moved, a number written over or put
  // in, the end cut off.
  std::string next() {
    std::string text = original_;
    for (auto changes = 1 + random_() % 4; changes-- > 0 && !text.empty();) change(text);
    return text;
  }

 private:
  // Half of all changes fall on the first 600 bytes, where headers are.
  std::size_t place(const std::string& text) {
    return random_() % (random_() % 2 ? std::min<std::size_t>(text.size(), 600) : text.size());
  }

  void change(std::string& text) {
    static constexpr std::string_view kNumbers[] = {
        "-1",   "0",    "18446744073709551615", "9223372036854775807", "1e309", "4294967296", "[", "{}", "null",
        "\"\"", "../x", "\xff\xff\xff\xff"};
    const std::size_t at = place(text);
    const std::size_t length = std::min<std::size_t>(1 + random_() % 24, text.size() - at);
    const std::string_view number = kNumbers[random_() % std::size(kNumbers)];
    switch (random_() % 8) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random_() % 8));
        break;
      case 1:
        text[at] = static_cast<char>(random_());
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text.replace(at, std::min(number.size(), text.size() - at), number);
        break;
      case 5:
        text.insert(at, number);
        break;
      case 6:
        text.insert(place(text), text.substr(at, length));
        break;
      default:
        if (random_() % 4 == 0) text.resize(at);
    }
  }

  std::string original_;
  std::mt19937 random_;
};

struct FuzzCounts {
  int taken = 0, refused = 0;
};

// Calls `parse` with `mutants` mutants of `original`; anything but success, bad_input and io fails the test.
inline FuzzCounts fuzz(const std::string& original, int mutants, const std::function<void(const std::string&)>& parse,
                       unsigned seed = 1) {
  FileMutator mutator(original, seed);
  FuzzCounts counts;
  for (int i = 0; i < mutants; ++i) {
    const std::string mutant = mutator.next();
    try {
      parse(mutant);
      ++counts.taken;
    } catch (const Error& error) {
      ++counts.refused;
      EXPECT_TRUE(error.code() == Code::bad_input || error.code() == Code::io)
          << "mutant " << i << ": " << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "mutant " << i << " of seed " << seed << " gives " << error.what();
    }
  }
  return counts;
}

}  // namespace weft
