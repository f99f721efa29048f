// What one block of a tensor-parallel model does about its two synchronisations: the all-reduce after the attention's
// output projection and the one after the MLP. The names are those of spd files and of the command line.
//
//   sync        both are made, partial sums travel as f32          drop        only the second is made, f32
//   bf16        both, as bf16                                      drop+bf16   only the second, as bf16
//   int8        both, as int8 with a scale for 32 values           drop+int8   only the second, as int8
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class BlockWire { f32, bf16, int8 };  // of partial sums between ranks

struct BlockMode {
  bool drop = false;  // the attention's partial sums stay where they are until the MLP's all-reduce
  BlockWire wire = BlockWire::f32;

  bool operator==(const BlockMode&) const = default;
};

using Modes = std::vector<BlockMode>;  // of every block of a model, in order

Modes all_blocks(std::int64_t blocks, BlockMode mode);

std::string_view to_string(BlockMode mode);
BlockMode parse_block_mode(std::string_view name);  // throws bad_input naming the choices
Modes parse_modes(std::string_view list);           // "int8,drop": each once, without sync

// Blocks of a list such as "0,3-5", of "all" or of "none": ascending, each once. Messages begin with `where`.
std::vector<int> parse_blocks(std::string_view list, std::int64_t blocks, std::string_view where);
// The same, or "50%": that share of the blocks, the last ones first, since the first ones suffer most. One per block.
std::vector<bool> parse_dropped(std::string_view list, std::int64_t blocks, std::string_view where);

int num_dropped(std::span<const BlockMode> modes);
std::string summary(std::span<const BlockMode> modes);  // "10 drop, 4 int8, 2 sync", most frequent first

}  // namespace weft
