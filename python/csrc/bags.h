// Embedding bags and their exchange: every rank has some tables, pools them for the whole batch, and gets all ranks'
// tables for its part of the batch. Backward is the reverse exchange, and then every row of a table adds up the
// gradients of the bags that it is in.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/choices.h"
#include "weft/kernel/table/embedding_bag.h"

#include "python/csrc/torch_tensor.h"
#include "python/csrc/worlds.h"

namespace weft::torch_ops {

// Of this rank: bag b of table t holds indices[t][offsets[t][b]] to indices[t][offsets[t][b + 1] - 1]. Or there is one
// tensor of each for all tables, as TorchRec and FBGEMM have it: then that bag is number t * batch + b of it.
struct BagsCall {
  std::vector<Tensor> indices, offsets;  // i64, dense; batch + 1 offsets, or tables * batch + 1
  Pooling pooling = Pooling::sum;
  Sizes tables_of;      // of each rank
  bool on_gpu = false;  // where indices are checked while they are read

  std::int64_t batch(std::size_t tables) const;
  // Of table t of so many: its batch + 1 offsets, and the indices that they count from.
  Bags of(std::size_t t, std::size_t tables) const;
  std::int64_t num_indices(std::size_t t) const;  // that they count
};

// Throws bad_input for all that this rank can see to be wrong; on a GPU all but the numbers in the lists.
void check_bags(const std::vector<Tensor>& tables, const BagsCall& call, const Group& group);

// Collective: the shape that all ranks agree on. Arguments that do not fit are refused by all ranks.
Shape agree_bags(Group& group, const std::vector<Tensor>& tables, const BagsCall& call);
// What this rank would say of itself there, the same for calls that can be served by one shape.
Sizes bag_numbers(const std::vector<Tensor>& tables, const BagsCall& call);
Sizes pooled_sizes(const Group& group, const Shape& shape);  // of this rank's result

// Collective; (batch / ranks, all ranks' tables * dim), those of rank 0 first. Arguments that do not fit are refused by
// all ranks.
Tensor pool(Group& group, const std::vector<Tensor>& tables, const BagsCall& call);

// Collective. The gradient of every table, from that of what pool() gave; the tables have `rows` rows each.
//   dense   (rows, dim)
//   sparse  (indices of its bags, dim): what each index adds to its row, in their order
enum class TableGradient { dense, sparse };
std::vector<Tensor> pool_backward(Group& group, const Tensor& grad, const Sizes& rows, const BagsCall& call,
                                  TableGradient kind);

}  // namespace weft::torch_ops
