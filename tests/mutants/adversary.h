// An adversary of plans: it runs one under timings that no real machine would choose, and says what went
// wrong. It is written from the words at the top of plan.h, knows nothing of verify(), and shares only the
// expansion of rules.
//
//   lane     its waits are met -> each source is read, at its own moment -> each store lands, at its own
//   moment signal   to rank q: lands some time after this lane's own stores to q, in any order with all else
//   steps    claimed in listed order by 1 to 4 threads or as many as there are lanes, chosen by the seed
//   run      a rank goes on when its lanes have been issued and what they stored and signalled at home has
//   landed;
//            what they sent elsewhere may land whenever it likes, but where buffers have several copies (two
//            runs may then be under way) not after what the same rank sends there in its next run
//   reader   looks at the outputs when the run ends and again just before the next one opens
//
// Numbers are terms: a 64-bit hash stands for a whole expression, a + b = b + a but (a + b) + c != a + (b +
// c). So a sum in another order, a stale element or one of another run shows in every element, not by chance.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "weft/plan/plan.h"

namespace weft::mutants {

class Adversary {
 public:
  explicit Adversary(const Plan& plan);  // throws bad_input where the plan cannot be expanded
  ~Adversary();

  // Several runs back to back. Empty: every rank found what it is owed in every run; else the first thing
  // wrong.
  std::string run(std::uint64_t seed) const;

  struct Scene;

 private:
  std::unique_ptr<const Scene> scene_;
};

}  // namespace weft::mutants
