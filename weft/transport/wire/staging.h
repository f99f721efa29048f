// The fixed memory that rows are packed into before they leave: one mapping, made once, given out in runs of 1 KB units
// and taken back in any order (peers drain at different rates). A bit a unit says what is in use; the lowest run
// that is long enough is taken, so that little traffic stays in little memory, which stays in the caches.
//
// Who finds no room waits in a line, and only the head of the line is served: a large block is not starved by small
// ones. Thread-safe; nothing here sleeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace weft {

class Staging {
 public:
  static constexpr std::size_t kUnit = 1024;

  // `bytes` in all, of which one block has at most `most`. Throws no_memory.
  Staging(std::size_t bytes, std::size_t most);

  // One caller's place in the line; leaves it when it goes.
  class Turn {
   public:
    explicit Turn(Staging& staging);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    friend class Staging;
    Staging& staging_;
    std::uint64_t ticket_;
  };

  std::size_t most_bytes() const { return most_; }

  // 64-byte aligned; null where there is no room now, or others came first.
  std::byte* take(std::size_t bytes);
  std::byte* take(std::size_t bytes, const Turn& turn);

  // From now on the block is given back by the `parts`-th call of give_back; 1 unless this is called.
  void split(std::byte* block, std::uint32_t parts);
  // True where the block is free now.
  bool give_back(std::byte* block);

  std::size_t units_in_use() const;

 private:
  std::byte* take_locked(std::size_t bytes);
  std::size_t find_run(std::size_t units, std::size_t begin, std::size_t end) const;
  void mark(std::size_t unit, std::size_t units, bool used);

  struct Block {
    std::uint32_t units = 0, parts = 0;
  };

  std::size_t most_;
  std::shared_ptr<void> memory_;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> used_;  // a bit a unit
  std::vector<Block> blocks_;        // by first unit
  std::size_t lowest_ = 0;           // no unit below is free
  std::size_t in_use_ = 0;           // units
  std::deque<std::uint64_t> line_;   // tickets of those who wait
  std::uint64_t tickets_ = 0;
};

}  // namespace weft
