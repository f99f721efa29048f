// What an op must give, in float64 and straight from the definitions in plan/space.h and plan/producer.h: no plan, no
// builder and no executor has a part in it. A wrong result has no time.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/study/op_spec.h"
#include "weft/world/op.h"

namespace weft {

// A block of a result and where it belongs in it. Panels lie in several ops' memory: putting them side by side
// would cost a copy that nobody needs.
struct Placed {
  Matrix values;
  std::int64_t row = 0, col = 0;
};
using Result = std::vector<Placed>;

enum class Expect { op, producer };  // what the whole op owes to a rank, or what its producer alone makes there

class Reference {
 public:
  explicit Reference(const OpSpec& spec) : spec_(spec) {}

  // Element (i, j) of a rank's output in a round.
  double element(Expect what, std::uint64_t round, int rank, std::int64_t i, std::int64_t j) const;

  // Largest |y - reference| over the largest |reference|, over all elements where that takes at most `terms` products,
  // else over a spread of them that differs from round to round. Infinite where the shape is wrong.
  double error_of(const Matrix& y, Expect what, std::uint64_t round, int rank, std::int64_t terms) const;
  // The same for a result in blocks, which must cover it.
  double error_of(const Result& y, Expect what, std::uint64_t round, int rank, std::int64_t terms) const;

  // What rounding may cost: f32 sums grow errors with the root of their length; bf16 on the wire keeps 8 bits, int8 7
  // of the largest value of a block.
  double tolerance() const;

  struct Size {
    std::int64_t rows, cols;
  };
  Size size(Expect what, int rank) const;  // of a rank's result

 private:
  double made(std::uint64_t round, int rank, std::int64_t i, std::int64_t j) const;  // by the producer of `rank`
  double gathered(std::uint64_t round, int rank, std::int64_t i, std::int64_t j) const;
  std::int64_t terms_of_an_element() const;
  struct Check;
  void check(const Placed& block, const Check& how, double* worst, double* largest) const;

  const OpSpec& spec_;
};

}  // namespace weft
