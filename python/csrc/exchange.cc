#include "python/csrc/exchange.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft::torch_ops {
namespace {

std::int64_t total(const Sizes& counts) { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

void check_counts(const Sizes& counts, int rank, std::size_t ranks, const char* op, const char* name) {
  if (!counts.empty() && counts.size() != ranks)
    bad_input("weft.{}: rank {} gives {} counts as {}, but the group has {} ranks; give one per rank", op, rank,
              counts.size(), name, ranks);
  for (const std::int64_t count : counts)
    if (count < 0 || count > kMostExact)
      bad_input("weft.{}: rank {} has {} among the counts of {}; use 0 to {}", op, rank, count, name, kMostExact);
}

void check_capacity(std::int64_t capacity, const char* op) {
  if (capacity < 0 || capacity > kMostExact)
    bad_input("weft.{}: capacity is {}; give the most rows of a rank for another, 1 to {}", op, capacity, kMostExact);
}

void check_fits(std::int64_t count, std::int64_t capacity, int from, int to, const char* op) {
  if (capacity > 0 && count > capacity)
    bad_input("weft.{}: rank {} has {} rows for rank {}, but capacity is {}; give all ranks more, or send fewer", op,
              from, count, to, capacity);
}

void check_total(const Sizes& sent, std::int64_t rows, int from, const char* op) {
  if (total(sent) != rows)
    bad_input("weft.{}: x of rank {} has {} rows, but {} are to be sent; the counts must add up to its rows", op, from,
              rows, total(sent));
}

[[noreturn]] void refuse_disagreement(int from, std::int64_t sent, int to, std::int64_t received, const char* op) {
  bad_input("weft.{}: rank {} has {} rows for rank {}, which expects {}; give counts that agree, or leave out receive",
            op, from, sent, to, received);
}

// Rows from `from` to `to`, as either of them says.
std::int64_t rows_between(const std::vector<Said>& said, int from, int to, const char* op) {
  const Sizes &sent = said[at(from)].send, &received = said[at(to)].receive;
  if (sent.empty() && received.empty())
    bad_input("weft.{}: nobody says how many rows go from rank {} to rank {}; give send or receive", op, from, to);
  if (sent.empty()) return received[at(from)];
  if (!received.empty() && sent[at(to)] != received[at(from)])
    refuse_disagreement(from, sent[at(to)], to, received[at(from)], op);
  return sent[at(to)];
}

}  // namespace

Parts parts_of(const std::vector<Said>& said, int rank, const char* op) {
  const int ranks = int_size(said);
  const std::int64_t capacity = said[0].capacity;
  for (int r = 0; r < ranks; ++r) {
    check_capacity(said[at(r)].capacity, op);
    if (said[at(r)].capacity != capacity)
      bad_input("weft.{}: capacity of rank 0 is {} and of rank {} {}; give all ranks the same", op, capacity, r,
                said[at(r)].capacity);
    check_counts(said[at(r)].send, r, said.size(), op, "send");
    check_counts(said[at(r)].receive, r, said.size(), op, "receive");
  }
  Parts parts;
  std::int64_t least = kMostExact, most = 0;
  for (int from = 0; from < ranks; ++from) {
    Sizes sent;
    for (int to = 0; to < ranks; ++to) {
      sent.push_back(rows_between(said, from, to, op));
      check_fits(sent.back(), capacity, from, to, op);
      if (to == rank) parts.receive.push_back(sent.back());
      least = std::min(least, sent.back()), most = std::max(most, sent.back());
    }
    check_total(sent, said[at(from)].rows, from, op);
    if (from == rank) parts.send = sent;
  }
  if (capacity > 0) parts.room = capacity;
  if (capacity == 0)
    parts.room = least == most ? most : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(most)));
  return parts;
}

std::vector<Sizes> gather_numbers(Group& group, const Sizes& numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Tensor row = new_tensor({1, count});
  std::copy(numbers.begin(), numbers.end(), static_cast<float*>(row.data_ptr()));
  const auto product = group.product({.call = Call::all_gather, .m = 1, .n = count});
  const auto* all = static_cast<const float*>(product->run(row, {}));
  std::vector<Sizes> out;
  for (int rank = 0; rank < group.size(); ++rank) {
    Sizes& of_rank = out.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) of_rank.push_back(static_cast<std::int64_t>(all[rank * count + i]));
  }
  return out;
}

namespace {

// Numbers that are wild are refused by all, so they stay so.
std::int64_t told(std::int64_t number) { return std::clamp<std::int64_t>(number, -1, 2 * kMostExact); }

// Rows and capacity, then both lists behind their lengths; a list of the wrong length or with wild numbers is refused
// by all.
std::vector<Said> gather_counts(Group& group, const Said& own) {
  const std::size_t ranks = num(group.size());
  Sizes numbers{own.rows, told(own.capacity), static_cast<std::int64_t>(own.send.size()),
                static_cast<std::int64_t>(own.receive.size())};
  for (const Sizes* list : {&own.send, &own.receive})
    for (std::size_t i = 0; i < ranks; ++i) numbers.push_back(i < list->size() ? told((*list)[i]) : 0);
  std::vector<Said> said;
  for (const Sizes& of_rank : gather_numbers(group, numbers)) {
    Said& next = said.emplace_back();
    next.rows = of_rank[0], next.capacity = of_rank[1];
    const auto list = of_rank.begin() + 4;
    next.send.assign(list, list + static_cast<std::ptrdiff_t>(ranks));
    next.receive.assign(list + static_cast<std::ptrdiff_t>(ranks), of_rank.end());
    next.send.resize(num(of_rank[2]));
    next.receive.resize(num(of_rank[3]));
  }
  return said;
}

// By one rank, of what it says. That its counts are those of the others it cannot see.
Parts own_parts(const Said& own, int rank, int ranks, const char* op) {
  check_capacity(own.capacity, op);
  check_counts(own.send, rank, num(ranks), op, "send");
  check_counts(own.receive, rank, num(ranks), op, "receive");
  for (int r = 0; r < ranks; ++r) {
    check_fits(own.send[at(r)], own.capacity, rank, r, op);
    check_fits(own.receive[at(r)], own.capacity, r, rank, op);
  }
  check_total(own.send, own.rows, rank, op);
  if (own.send[at(rank)] != own.receive[at(rank)])
    refuse_disagreement(rank, own.send[at(rank)], rank, own.receive[at(rank)], op);
  return {own.send, own.receive, own.capacity};
}

}  // namespace

Parts agree_parts(Group& group, std::int64_t rows, const ExchangeCall& call) {
  const Said own{rows, call.capacity, call.send, call.receive};
  if (call.capacity != 0 && !call.send.empty() && !call.receive.empty())
    return own_parts(own, group.rank(), group.size(), name_of(call.call));
  return parts_of(gather_counts(group, own), group.rank(), name_of(call.call));
}

Tensor exchange(Group& group, const Tensor& x, const ExchangeCall& call) {
  Operands operands = call.operands;
  const std::int64_t n = operands.w ? operands.w->size(0) : x.size(1);
  const Parts parts = agree_parts(group, x.size(0), call);
  const Dtype type = type_of(x, "x", name_of(call.call));
  Tensor out = new_tensor({total(parts.receive), n}, type);
  if (parts.room == 0) return out;
  Shape shape{.call = call.call, .m = parts.room * group.size(), .n = n, .type = type};
  if (operands.w) shape.k = x.size(1), shape.bias = operands.bias.has_value();
  const auto product = group.product(shape);
  if (operands.w && product->choice().way == Way::fused) operands.w = dense(*operands.w);
  const auto* rows = static_cast<const std::byte*>(product->exchange(dense(x), operands, parts.send));
  auto* to = static_cast<std::byte*>(out.data_ptr());
  for (const std::int64_t count : parts.receive) {
    if (count > 0) std::memcpy(to, rows, num(row_bytes(type, count * n)));
    to += row_bytes(type, count * n), rows += row_bytes(type, parts.room * n);
  }
  return out;
}

}  // namespace weft::torch_ops
