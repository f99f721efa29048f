#include "weft/exec/cpu/remote.h"

#include <algorithm>
#include <type_traits>

#include "weft/base/index.h"
#include "weft/transport/transport.h"

namespace weft {
namespace {

// A trigger that sends to another host waits, between tiles, while the wire has this much to send already.
constexpr std::size_t kBacklog = std::size_t{1} << 20;

// What begins at a row and a column of a strip.
template <typename AnyStrip>
AnyStrip part_of(const AnyStrip& whole, std::int64_t row, std::int64_t col) {
  AnyStrip out = whole;
  using Byte =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(out.data)>>, const std::byte, std::byte>;
  out.data = static_cast<Byte*>(whole.data) + row * row_bytes(whole.dtype, whole.ld) + row_bytes(whole.dtype, col);
  return out;
}

}  // namespace

Remote::Remote(const Memory& memory, std::uint32_t segment, int rank, Transport& transport)
    : memory_(memory), segment_(segment), wire_(*transport.wire()), world_rank_(memory.world_rank) {
  for (const int peer : world_rank_) is_remote_.push_back(peer != world_rank_[rank] && !transport.reaches(peer));
  most_bytes_ = static_cast<std::int64_t>(wire_.most_staged_bytes());
}

Outbox Remote::outbox() const {
  Outbox out;
  out.staged.reserve(is_remote_.size());
  out.raises.reserve(2 * is_remote_.size());
  out.counters.reserve(2 * is_remote_.size());
  return out;
}

// A lane holds little staging while it asks for more, or threads could wait for each other's: what it has for a rank
// already goes ahead, and so does the oldest once all of it comes to more than one piece. The wire keeps the order, so
// signals that follow still cover it.
Strip Remote::stage(int target, const Outgoing& outgoing, Outbox& out) const {
  const std::size_t bytes = outgoing.bytes();
  const auto same =
      std::find_if(out.staged.begin(), out.staged.end(), [&](const auto& s) { return s.target == target; });
  if (same != out.staged.end()) {
    send(*same, out);
    out.staged.erase(same);
  }
  while (!out.staged.empty() && out.bytes + bytes > num(most_bytes_)) {
    send(out.staged.front(), out);
    out.staged.erase(out.staged.begin());
  }
  std::byte* data = wire_.stage(bytes);
  const auto* at = static_cast<const std::byte*>(outgoing.place.data);
  out.staged.push_back({target,
                        {.segment = segment_,
                         .offset = static_cast<std::uint64_t>(at - memory_.base[target]),
                         .rows = static_cast<std::uint64_t>(outgoing.rows),
                         .row_bytes = static_cast<std::uint64_t>(row_bytes(outgoing.dtype, outgoing.cols)),
                         .stride = static_cast<std::uint64_t>(row_bytes(outgoing.place.dtype, outgoing.place.ld)),
                         .landing = outgoing.dtype == outgoing.place.dtype ? Landing::as_it_is : Landing::widened},
                        data});
  out.bytes += bytes;
  return {data, outgoing.cols, outgoing.dtype};
}

void Remote::store(int target, std::int64_t rows, std::int64_t cols, std::span<const ConstStrip> sources,
                   const Strip& to, Outbox& out) const {
  const Dtype dtype = sources.size() == 1 ? travels_as(sources[0].dtype, to.dtype) : to.dtype;
  // As many whole blocks of int8 as fit; of other formats these come to a few values less than could be.
  const std::int64_t most = most_bytes_ / row_bytes(dtype, kInt8Block) * kInt8Block;
  const std::int64_t wide = std::min(cols, most);
  const std::int64_t high = std::min(rows, std::max<std::int64_t>(most_bytes_ / row_bytes(dtype, wide), 1));
  for (std::int64_t row = 0; row < rows; row += high)
    for (std::int64_t col = 0; col < cols; col += wide) {
      const std::int64_t m = std::min(high, rows - row), n = std::min(wide, cols - col);
      const Strip staged = stage(target, {m, n, part_of(to, row, col), dtype}, out);
      out.parts.clear();
      for (const ConstStrip& source : sources) out.parts.push_back(part_of(source, row, col));
      if (out.parts.size() == 1)
        copy(m, n, out.parts[0], staged);
      else
        sum(m, n, out.parts, staged);
    }
}

bool Remote::is_backed_up() const { return wire_.backlog() > kBacklog; }

void Remote::raise(int target, std::int64_t counter, Outbox& out) const {
  const std::size_t offset = memory_.layouts[target].counters + num(counter) * sizeof(std::uint32_t);
  out.raises.push_back({target, {segment_, offset}});
}

void Remote::send(const Outbox::Staged& staged, Outbox& out) const {
  wire_.put(world_rank_[staged.target], staged.to, staged.data, out.counters);
  out.bytes -= staged.to.bytes();
}

void Remote::post(Outbox& out) const {
  for (const Outbox::Staged& staged : out.staged) {
    for (const Outbox::Raise& raise : out.raises)
      if (raise.target == staged.target) out.counters.push_back(raise.counter);
    send(staged, out);
    out.counters.clear();
  }
  for (const Outbox::Raise& raise : out.raises)
    if (std::none_of(out.staged.begin(), out.staged.end(), [&](const auto& s) { return s.target == raise.target; }))
      wire_.signal(world_rank_[raise.target], raise.counter);
  out.staged.clear();
  out.raises.clear();
}

}  // namespace weft
