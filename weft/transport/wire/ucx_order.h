// Brings the messages of one sender back into the order they were sent in. UCX keeps it on one TCP connection, but does
// not promise it while an endpoint is being wired up or where it has several lanes; the wire does promise it. A message
// that is due costs one comparison; one that is early is copied and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace weft {

class InOrder {
 public:
  enum class Verdict { applied, kept, repeated, too_early };

  // So many messages may overtake a missing one; more mean that it was lost.
  static constexpr std::uint64_t kMostEarly = 1 << 14;

  // Calls apply(header, data) for this message if it is due, and then for those kept that are due after it.
  template <class Apply>
  Verdict arrive(std::uint64_t sequence, std::span<const std::byte> header, std::span<const std::byte> data,
                 Apply&& apply) {
    if (sequence != next_) return keep(sequence, header, data);
    ++next_;
    apply(header, data);
    while (!early_.empty() && early_.begin()->first == next_) {
      const auto node = early_.extract(early_.begin());
      ++next_;
      apply(std::span<const std::byte>(node.mapped().header), std::span<const std::byte>(node.mapped().data));
    }
    return Verdict::applied;
  }

  std::size_t num_kept() const { return early_.size(); }

 private:
  struct Kept {
    std::vector<std::byte> header, data;
  };

  Verdict keep(std::uint64_t sequence, std::span<const std::byte> header, std::span<const std::byte> data) {
    if (sequence < next_) return Verdict::repeated;
    if (sequence - next_ > kMostEarly) return Verdict::too_early;
    const bool fresh =
        early_.try_emplace(sequence, Kept{{header.begin(), header.end()}, {data.begin(), data.end()}}).second;
    return fresh ? Verdict::kept : Verdict::repeated;
  }

  std::uint64_t next_ = 0;
  std::map<std::uint64_t, Kept> early_;
};

}  // namespace weft
