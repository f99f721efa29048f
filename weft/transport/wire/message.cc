#include "weft/transport/wire/message.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr auto kWidened = static_cast<std::uint32_t>(Landing::widened);

// bf16 is the upper half of an f32. Neither address need be aligned.
void widen(std::byte* to, const std::byte* from, std::size_t values) {
  for (std::size_t i = 0; i < values; ++i) {
    std::uint16_t half;
    std::memcpy(&half, from + i * sizeof half, sizeof half);
    const std::uint32_t whole = std::uint32_t{half} << 16;
    std::memcpy(to + i * sizeof whole, &whole, sizeof whole);
  }
}

}  // namespace

Cut::Cut(Rows rows, std::uint64_t most) : rows_(rows), most_(most) {
  if (rows_.bytes() == 0) return;
  if (rows_.rows == 1 || rows_.stride == rows_.row_bytes * rows_.growth()) {
    rows_.row_bytes = rows_.bytes();
    rows_.stride = rows_.row_bytes * rows_.growth();
    rows_.rows = 1;
  }
  if (rows_.row_bytes <= most_) {
    rows_a_piece_ = most_ / rows_.row_bytes;
    size_ = (rows_.rows + rows_a_piece_ - 1) / rows_a_piece_;
  } else {
    pieces_a_row_ = (rows_.row_bytes + most_ - 1) / most_;
    size_ = rows_.rows * pieces_a_row_;
  }
}

Cut::Piece Cut::operator[](std::uint64_t index) const {
  Piece piece{rows_, 0};
  if (rows_a_piece_ > 0) {
    const std::uint64_t row = index * rows_a_piece_;
    piece.box.offset += row * rows_.stride;
    piece.box.rows = std::min(rows_a_piece_, rows_.rows - row);
    piece.packed = row * rows_.row_bytes;
  } else {
    const std::uint64_t row = index / pieces_a_row_, at = index % pieces_a_row_ * most_;
    piece.box.offset += row * rows_.stride + at * rows_.growth();
    piece.box.rows = 1;
    piece.box.row_bytes = std::min(most_, rows_.row_bytes - at);
    piece.packed = row * rows_.row_bytes + at;
  }
  return piece;
}

void SegmentTable::add(std::uint32_t id, std::byte* base, std::size_t bytes) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), id,
                                   [](const Entry& entry, std::uint32_t wanted) { return entry.id < wanted; });
  if (at != entries_.end() && at->id == id) fail(Code::internal, "segment {} was given to the wire twice", id);
  entries_.insert(at, {id, base, bytes});
}

void SegmentTable::remove(std::uint32_t id) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.id == id; });
}

const SegmentTable::Entry* SegmentTable::find(std::uint32_t id) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), id,
                                   [](const Entry& entry, std::uint32_t wanted) { return entry.id < wanted; });
  return at != entries_.end() && at->id == id ? &*at : nullptr;
}

void SegmentTable::check_rows(const MessageHeader& header, const Entry& entry) const {
  if (header.landing > kWidened || (header.landing == kWidened && header.row_bytes % 2 != 0))
    bad_input("it sent rows of {} bytes to land in way {}, which is none", header.row_bytes, header.landing);
  const std::uint64_t landed = std::uint64_t{header.row_bytes} * (header.landing == kWidened ? 2 : 1);
  const Rows rows{header.segment,   header.offset, header.rows,
                  header.row_bytes, header.stride, static_cast<Landing>(header.landing)};
  if (!rows.fit(entry.bytes))
    bad_input("it sent {} rows of {} bytes, {} apart, to offset {} of segment {}, which has {} bytes", header.rows,
              landed, header.stride, header.offset, header.segment, entry.bytes);
}

void SegmentTable::check_counters(const MessageCounter* counters, std::size_t num_counters) const {
  for (std::size_t i = 0; i < num_counters; ++i) {
    const Entry* entry = find(counters[i].segment);
    if (entry == nullptr) continue;
    const std::uint64_t offset = counters[i].offset;
    if (entry->bytes < sizeof(std::uint32_t) || offset > entry->bytes - sizeof(std::uint32_t) || offset % 4 != 0)
      bad_input("it raised a counter at offset {} of segment {}, which has {} bytes", offset, entry->id, entry->bytes);
  }
}

bool SegmentTable::raise(const MessageCounter* counters, std::size_t num_counters) const {
  bool raised = false;
  for (std::size_t i = 0; i < num_counters; ++i) {
    const Entry* entry = find(counters[i].segment);
    if (entry == nullptr) continue;
    auto* word = reinterpret_cast<std::uint32_t*>(entry->base + counters[i].offset);
    // seq_cst for the bell's protocol; its release covers the rows copied before.
    std::atomic_ref<std::uint32_t>(*word).fetch_add(counters[i].amount, std::memory_order_seq_cst);
    raised = true;
  }
  return raised;
}

bool SegmentTable::apply(const MessageHeader& header, const MessageCounter* counters,
                         std::span<const std::byte> data) const {
  const std::uint64_t bytes = std::uint64_t{header.rows} * header.row_bytes;
  if (bytes != data.size()) bad_input("it announced {} bytes of rows and sent {}", bytes, data.size());
  const Entry* to = bytes == 0 ? nullptr : find(header.segment);
  if (to != nullptr) check_rows(header, *to);
  check_counters(counters, std::size_t{header.counters_before} + header.counters_after);

  const bool before = raise(counters, header.counters_before);
  for (std::uint64_t row = 0; to != nullptr && row < header.rows; ++row) {
    std::byte* place = to->base + header.offset + row * header.stride;
    const std::byte* sent = data.data() + row * header.row_bytes;
    if (header.landing == kWidened)
      widen(place, sent, header.row_bytes / 2);
    else
      std::memcpy(place, sent, header.row_bytes);
  }
  return raise(counters + header.counters_before, header.counters_after) || before;
}

}  // namespace weft
