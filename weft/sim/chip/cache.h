// The last-level cache, block by block: what is in it, and what an insertion throws out. The victim is the one used
// longest ago among `ways` blocks that a fixed pseudo-random sequence names, as in a set-associative cache whose sets
// are hashed: with many ways it is least-recently-used, with one it is any block. Blocks are panel slices and output
// tiles, of different sizes; capacity is in bytes.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::sim {

class Cache {
 public:
  Cache(std::int64_t capacity_bytes, int ways, std::int32_t num_blocks)
      : capacity_(capacity_bytes), ways_(ways), place_(static_cast<std::size_t>(num_blocks), kAbsent) {}

  // True where the block is here, which is a use of it.
  bool uses(std::int32_t block) {
    const std::int32_t place = place_[static_cast<std::size_t>(block)];
    if (place < 0) return false;
    blocks_[static_cast<std::size_t>(place)].used = ++clock_;
    return true;
  }

  // Returns the bytes of changed blocks that had to leave, this one among them where it is larger than the cache.
  std::int64_t insert(std::int32_t block, std::int64_t bytes, bool changed) {
    std::int64_t written = 0;
    while (used_ + bytes > capacity_ && !blocks_.empty()) written += evict(victim());
    if (bytes > capacity_) return written + (changed ? bytes : 0);
    place_[static_cast<std::size_t>(block)] = static_cast<std::int32_t>(blocks_.size());
    blocks_.push_back({block, changed, bytes, ++clock_});
    used_ += bytes;
    return written;
  }

  // Bytes of changed blocks, which are unchanged from here on: what the end of a kernel writes back.
  std::int64_t flush() {
    std::int64_t written = 0;
    for (Block& block : blocks_)
      if (block.changed) written += block.bytes, block.changed = false;
    return written;
  }

 private:
  static constexpr std::int32_t kAbsent = -1;
  struct Block {
    std::int32_t id;
    bool changed;
    std::int64_t bytes;
    std::uint64_t used;
  };

  std::uint64_t draw() {  // xorshift64
    seed_ ^= seed_ << 13;
    seed_ ^= seed_ >> 7;
    seed_ ^= seed_ << 17;
    return seed_ >> 11;
  }

  std::size_t victim() {
    std::size_t oldest = draw() % blocks_.size();
    for (int way = 1; way < ways_; ++way) {
      const std::size_t other = draw() % blocks_.size();
      if (blocks_[other].used < blocks_[oldest].used) oldest = other;
    }
    return oldest;
  }

  std::int64_t evict(std::size_t at) {
    const Block gone = blocks_[at];
    place_[static_cast<std::size_t>(gone.id)] = kAbsent;
    used_ -= gone.bytes;
    blocks_[at] = blocks_.back();
    blocks_.pop_back();
    if (at < blocks_.size()) place_[static_cast<std::size_t>(blocks_[at].id)] = static_cast<std::int32_t>(at);
    return gone.changed ? gone.bytes : 0;
  }

  std::int64_t capacity_, used_ = 0;
  int ways_;
  std::uint64_t seed_ = 0x9e3779b97f4a7c15u, clock_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> place_;  // in blocks_
};

}  // namespace weft::sim
