// Exchanges whose rows are known only at run time, as those of experts: every rank says how many rows it has for each
// rank, how many it expects from each, or both. A call begins with all ranks' counts on every rank, so that counts that
// do not fit are refused by all of them in the same words and nobody waits. The plan has room for the most rows that any
// rank has for any other, rounded up to a power of two: few plans serve all counts. Or for `capacity` of them: then
// ranks that give both counts need not ask each other, and one that sees counts that do not fit refuses alone.
#pragma once

#include <cstdint>
#include <vector>

#include "python/csrc/product.h"
#include "python/csrc/torch_tensor.h"
#include "python/csrc/worlds.h"

namespace weft::torch_ops {

// What one rank says: its rows, those for and from each rank, of which either may be left out, and how many there may be
// of a pair; 0: as many as there are.
struct Said {
  std::int64_t rows = 0, capacity = 0;
  Sizes send, receive;
};

// What all of them come to, for one rank.
struct Parts {
  Sizes send, receive;
  std::int64_t room = 0;  // for the rows of a pair
};

// Throws bad_input, the same on every rank, where counts do not fit.
Parts parts_of(const std::vector<Said>& said, int rank, const char* op);

// Numbers of every rank, (ranks, as many as it gives); collective. Exact up to kMostExact.
inline constexpr std::int64_t kMostExact = std::int64_t{1} << 24;
std::vector<Sizes> gather_numbers(Group& group, const Sizes& numbers);

// Collective. x (rows, cols): without w its rows are moved, else their products with w.
struct ExchangeCall {
  Call call = Call::all_to_all;
  Operands operands;
  Sizes send, receive;
  std::int64_t capacity = 0;  // the same on all ranks
};
Tensor exchange(Group& group, const Tensor& x, const ExchangeCall& call);
// Its beginning: what all ranks say of x's rows; or what this rank says, where that is enough.
Parts agree_parts(Group& group, std::int64_t rows, const ExchangeCall& call);

}  // namespace weft::torch_ops
