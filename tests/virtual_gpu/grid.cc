#include "tests/virtual_gpu/grid.h"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/core.h>

namespace virtual_gpu {
namespace {

constexpr std::size_t kBulkOften = 4;  // of so many turns one is for a bulk copy

float widened(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

}  // namespace

// The seed is what VIRTUAL_GPU_SEED says.
Grid& grid() {
  static Grid& one = *new Grid([] {
    const char* seed = std::getenv("VIRTUAL_GPU_SEED");
    return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
  }());
  return one;
}

void Grid::report(std::string what) {
  if (failed) return;
  const Thread* who = fibers.self() != nullptr ? &this_thread() : nullptr;
  fault = who != nullptr ? fmt::format("thread {} of CTA {}: {}", who->index, who->cta->index, what) : what;
  failed = true;
}

void Grid::begin_cta(Launch& launch) {
  const auto number = static_cast<unsigned>(launch.ctas.size());
  launch.ctas.push_back(std::make_unique<Cta>());
  Cta& cta = *launch.ctas.back();
  cta.index = number, cta.launch = &launch, cta.bytes = launch.shared_bytes;
  cta.memory = std::make_unique<std::uint8_t[]>(launch.shared_bytes + 1024);
  const auto begin = reinterpret_cast<std::uintptr_t>(cta.memory.get());
  cta.shared = cta.memory.get() + ((begin + 1023) / 1024 * 1024 - begin);
  if (number % 2 == 1) {
    cta.beside = launch.ctas[number - 1].get();
    cta.beside->beside = &cta;
  } else {
    launch.clusters.push_back(std::make_unique<Meeting>());
  }
  for (int i = 0; i < (launch.threads + 31) / 32; ++i) cta.warps.push_back(std::make_unique<Warp>());
  for (int i = 0; i < (launch.threads + 127) / 128; ++i) cta.groups.push_back(std::make_unique<Group>());
  for (int i = 0; i < launch.threads; ++i) {
    cta.threads.push_back(std::make_unique<Thread>());
    Thread& thread = *cta.threads.back();
    thread.index = static_cast<unsigned>(i), thread.cta = &cta;
    thread.in_warp = i % 32, thread.in_group = i % 128;
    thread.warp = cta.warps[static_cast<std::size_t>(i / 32)].get();
    cta.groups[static_cast<std::size_t>(i / 128)]->threads[static_cast<std::size_t>(i % 128)] = &thread;
    fibers.spawn(
        [this, &thread] {
          thread.cta->launch->body();
          end_thread(thread);
        },
        &thread);
  }
}

void Grid::end_thread(Thread& thread) {
  Cta& cta = *thread.cta;
  if (++cta.ended < cta.launch->threads) return;
  for (const Bulk& one : bulk)
    if (one.cta == &cta && (one.asked == nullptr || !one.has_read))
      report("the CTA ends while a bulk copy uses its shared memory");
  if (!cta.lets_next_begin) ++cta.launch->letting;
  if (++cta.launch->ended == cta.launch->ctas_wanted) end_bulk(*cta.launch);
}

void Grid::end_bulk(const Launch& launch) {
  for (std::size_t i = 0; i < bulk.size();)
    if (bulk[i].cta->launch == &launch)
      advance(i);
    else
      ++i;
}

void Grid::ask(Bulk copy) { bulk.push_back(std::move(copy)); }

void Grid::advance(std::size_t index) {
  Bulk& one = bulk[index];
  Thread* const asked = one.asked;
  if (!one.has_read) {
    one.read();
    one.has_read = true;
    if (asked != nullptr && one.committed) --asked->unread;
  } else {
    one.write();
    if (asked != nullptr && one.committed) --asked->unwritten;
    std::swap(one, bulk.back());
    bulk.pop_back();
  }
  if (asked != nullptr && asked->awaits_bulk != nullptr) fibers.wake(std::exchange(asked->awaits_bulk, nullptr));
}

bool Grid::step() {
  if (!bulk.empty() && fibers.draw(kBulkOften) == 0) {
    advance(fibers.draw(bulk.size()));
    return true;
  }
  if (fibers.step()) return true;
  if (bulk.empty()) return false;
  advance(fibers.draw(bulk.size()));
  return true;
}

std::uint32_t shared_address_of(const void* p) {
  const Cta& cta = *this_thread().cta;
  const auto at = static_cast<const std::uint8_t*>(p) - cta.shared;
  if (at < 0 || at >= cta.bytes)
    grid().report("the address of something that is not in dynamic shared memory is asked for");
  return kSharedBase + static_cast<std::uint32_t>(at);
}

std::uint8_t* shared_at(Cta& cta, std::uint32_t address, std::uint32_t bytes) {
  if (address < kSharedBase || address - kSharedBase + bytes > cta.bytes) {
    grid().report(fmt::format("{} bytes at shared address {} are not in its {} bytes", bytes, address, cta.bytes));
    return cta.shared;
  }
  return cta.shared + (address - kSharedBase);
}

void complete(Barrier& barrier, std::int64_t bytes) {
  barrier.bytes -= bytes;
  if (barrier.pending > 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
  for (Fiber* fiber : std::exchange(barrier.waiting, {})) grid().fibers.wake(fiber);
}

void arrive_at(Barrier& barrier, int arrivals, std::int64_t expected_bytes) {
  if (barrier.pending < arrivals) return grid().report("a barrier is arrived at more often than it was made for");
  barrier.bytes += expected_bytes;
  barrier.pending -= arrivals;
  complete(barrier, 0);
}

Barrier& barrier_at(Cta& cta, std::uint32_t address) {
  std::uint64_t word = 0;
  std::memcpy(&word, shared_at(cta, address, 8), 8);
  return *reinterpret_cast<Barrier*>(word);
}

void wait_for(Barrier& barrier, int parity) {
  if (grid().fibers.draw(4) == 0) grid().fibers.yield();
  while (!has_passed(barrier, parity)) {
    barrier.waiting.push_back(grid().fibers.self());
    grid().fibers.block();
  }
}

const std::array<std::uint64_t, 32>& meet_warp(std::uint64_t mine) {
  Thread& me = this_thread();
  auto& values = me.warp->values[me.turns++ % 2];
  values[static_cast<std::size_t>(me.in_warp)] = mine;
  me.warp->meeting.meet(grid().fibers, 32);
  return values;
}

void meet_cluster() {
  Cta& cta = *this_thread().cta;
  Launch& launch = *cta.launch;
  launch.clusters[cta.index / 2]->meet(grid().fibers, 2 * launch.threads);
}

std::uint8_t* declared_memory(const void* type, std::size_t bytes) {
  Cta& cta = *this_thread().cta;
  for (const auto& [key, memory] : cta.declared)
    if (key == type) return memory.get();
  cta.declared.emplace_back(type, std::make_unique<std::uint8_t[]>(bytes));
  return cta.declared.back().second.get();
}

// d (64, 256 or 128) += a (64, 16) * b (16, as many), operands in blocks of 128 swizzled bytes per row.
static void multiply(Cta& cta, const Group& group, std::size_t which) {
  const Product& p = group.threads[0]->products[which];
  const auto start = [](std::uint64_t d) { return static_cast<std::uint32_t>(d & 0x3FFF) << 4; };
  const auto leading = [](std::uint64_t d) { return static_cast<std::uint32_t>(d >> 16 & 0x3FFF) << 4; };
  const auto stride = [](std::uint64_t d) { return static_cast<std::uint32_t>(d >> 32 & 0x3FFF) << 4; };
  const auto value = [&](std::uint32_t address) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, shared_at(cta, address ^ (address >> 7 & 7) << 4, 2), 2);
    return widened(bits);
  };
  static float a[64][16], b[16][256], d[64][256];
  const int columns = p.sums * 2;
  for (std::uint32_t row = 0; row < 64; ++row)
    for (std::uint32_t k = 0; k < 16; ++k)
      a[row][k] = value(start(p.a) + row / 8 * stride(p.a) + row % 8 * 128 + k * 2);
  for (std::uint32_t k = 0; k < 16; ++k)
    for (std::uint32_t col = 0; col < static_cast<std::uint32_t>(columns); ++col)
      b[k][col] = p.transposed
                      ? value(start(p.b) + col / 64 * leading(p.b) + k / 8 * stride(p.b) + k % 8 * 128 + col % 64 * 2)
                      : value(start(p.b) + col / 8 * stride(p.b) + col % 8 * 128 + k * 2);
  for (int row = 0; row < 64; ++row) {
    for (int col = 0; col < columns; ++col) d[row][col] = 0;
    for (int k = 0; k < 16; ++k)
      for (int col = 0; col < columns; ++col) d[row][col] += a[row][k] * b[k][col];
  }
  for (std::size_t t = 0; t < 128; ++t) {
    Thread& thread = *group.threads[t];
    if (thread.products[which].a != p.a || thread.products[which].b != p.b)
      grid().report("the threads of a warpgroup ask for different products");
    const std::size_t row = t / 32 * 16 + t % 32 / 4, col = t % 4 * 2;
    for (std::size_t j = 0; j < static_cast<std::size_t>(p.sums); ++j) {
      const float made = d[row + (j >> 1 & 1) * 8][col + j / 4 * 8 + j % 2];
      thread.sums[j] = p.add ? thread.sums[j] + made : made;
    }
  }
}

void make_products() {
  Thread& me = this_thread();
  Group& group = *me.cta->groups[me.index / 128];
  group.meeting.meet(grid().fibers, 128);
  if (me.in_group == 0)  // the others wait below
    for (std::size_t i = 0; i < me.products.size(); ++i) multiply(*me.cta, group, i);
  group.meeting.meet(grid().fibers, 128);
  me.products.clear();
}

void await_stores(bool written) {
  Thread& me = this_thread();
  while ((written ? me.unwritten : me.unread) > 0) {
    me.awaits_bulk = grid().fibers.self();
    grid().fibers.block();
  }
}

void await_launch_before() {
  const Launch& launch = *this_thread().cta->launch;
  while (launch.before != nullptr && !launch.before->done()) grid().fibers.look_again();
}

void let_next_begin() {
  Cta& cta = *this_thread().cta;
  if (std::exchange(cta.lets_next_begin, true)) return;
  ++cta.launch->letting;
}

void check_fenced(const char* what) {
  if (this_thread().acquired)
    grid().report(fmt::format("{} follows an acquire without a fence between threads and bulk copies", what));
}

}  // namespace virtual_gpu
