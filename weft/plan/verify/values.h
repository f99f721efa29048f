// What every action stores, as symbols (folds.h) with the limits of their rows (limits.h).
//
// A product is called by its producer and rank alone, so what it was made from must be beyond doubt: rows of an input
// with the numbers that the box has, or rows of a buffer of which the plan owes what they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/plan/verify/folds.h"
#include "weft/plan/verify/limits.h"
#include "weft/plan/verify/model.h"

namespace weft::verifying {

struct Part {
  std::int32_t box;  // relative to the piece's corner, interned
  std::int32_t node;
  std::int32_t origin;  // its logical box, interned
  std::int32_t limit = LimitTable::kNone;
};

class Values {
 public:
  Values(Model& model, const Seen& seen);

  void make(std::int32_t act);  // after all that it reads
  // The parts that a source or owed piece is made of.
  void parts_of(const VPiece& piece, std::span<const std::int32_t> writers, std::vector<Part>* out);
  void weigh(const std::vector<Part>& list);  // charges the budget
  // All ranks make a row of a stacked output from the same values. Of inputs their numbers say it already.
  void check_stacks();
  // Has a producer's output more rows than one rank's input?
  bool stacked(std::int32_t producer) const { return stacked_[producer]; }
  // Reads of what others made, by a rank's products.
  const std::vector<std::int32_t>& operands(int rank) const { return operands_[rank]; }

  Folds folds;
  LimitTable limits;

 private:
  struct Operand {
    std::int64_t lo, hi;  // rows that are made from it
    const Act* act;
    std::vector<Part> parts;
  };

  void hold_tables();
  std::int32_t relative(const Box& box, const Box& corner);
  void clip(const Part& part, const Box& written, const Box& wanted, std::vector<Part>* out);
  std::int32_t moved(std::int32_t origin, const Box& common, const Box& box);
  bool fold(std::vector<Part>* sum, const std::vector<Part>& next);
  bool keep(const Act& act, Part part);
  bool in_place(const Part& part, const Act& act) const;
  std::optional<Finish> finish_of(const Act& act);
  bool make_tile(const Act& act);
  bool check_operand(const Act& act, const Box& home, std::int32_t read);
  void limit_tile(const Box& home);
  bool agree(const Operand& one, const Operand& other) const;
  std::span<const std::int32_t> writers_of(std::int32_t piece) const;

  Model& m_;
  const Seen& seen_;
  std::vector<Part> parts_, sum_, next_, scratch_, tile_;
  std::vector<Range> parts_of_;                      // what each act made; the same for all its targets
  std::vector<bool> stacked_, reads_made_;           // of each producer; reads_made_: it reads what others made
  std::vector<std::int32_t> residual_in_;            // of each producer: the output that its residual has the shape of
  std::vector<std::vector<std::int32_t>> operands_;  // of each rank
  std::vector<std::int64_t> cuts_;
  std::int64_t limits_held_ = 0;  // bytes charged
};

}  // namespace weft::verifying
