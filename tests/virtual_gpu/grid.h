// What a kernel runs in on a virtual GPU: threads, warps, CTAs and launches; barriers in shared memory; and bulk
// copies, which happen some time after they were asked for. Whatever the instruction set leaves open is drawn: when a
// bulk copy reads, when it writes, and who comes next. What it forbids is a fault: it is told in a sentence that the
// host finds as the error of its next call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/virtual_gpu/fibers.h"

namespace virtual_gpu {

struct Cta;
struct Launch;
struct Thread;

// An mbarrier; the word in shared memory points to it.
struct Barrier {
  int arrivals = 0, pending = 0;
  std::int64_t bytes = 0;  // that are yet to come in this phase
  unsigned phase = 0;
  std::vector<Fiber*> waiting;
};

struct Warp {
  Meeting meeting;
  std::array<std::array<std::uint64_t, 32>, 2> values{};  // of two meetings in turn
};

// Bytes of shared memory that bulk copies must not read yet: written by a thread that has not fenced since.
struct Unfenced {
  std::uint32_t at, bytes;
};

// A product that a warpgroup has asked for: where its operands lie, by their descriptors.
struct Product {
  std::uint64_t a, b;
  bool add, transposed;
  int sums;  // that each thread has of it
};

// A bulk copy on its way. A store first reads shared memory, and writes later; a load does both at once.
struct Bulk {
  std::function<void()> read, write;
  Thread* asked = nullptr;  // of a store
  Cta* cta = nullptr;       // whose shared memory it reads or writes
  bool committed = false, has_read = false;
};

struct Thread {
  unsigned index = 0;
  Cta* cta = nullptr;
  Warp* warp = nullptr;
  int in_warp = 0, in_group = 0;
  unsigned turns = 0;                              // of its warp's meetings
  std::vector<Unfenced> unfenced;                  // what it wrote
  bool acquired = false;                           // since it last fenced: bulk loads may not follow yet
  int uncommitted = 0, unread = 0, unwritten = 0;  // of its bulk stores; those that are committed
  Fiber* awaits_bulk = nullptr;
  std::vector<Product> products;
  float* sums = nullptr;  // of its products
};

struct Group {  // of four warps
  Meeting meeting;
  std::array<Thread*, 128> threads{};
};

struct Cta {
  unsigned index = 0;
  Launch* launch = nullptr;
  Cta* beside = nullptr;  // of its cluster
  std::unique_ptr<std::uint8_t[]> memory;
  std::uint8_t* shared = nullptr;  // within it, at a multiple of 1024
  std::uint32_t bytes = 0;
  std::vector<std::pair<const void*, std::unique_ptr<std::uint8_t[]>>> declared;  // static memory, by its type
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<Barrier>> barriers;
  std::array<Meeting, 16> meetings;  // named barriers; 0: of all threads
  int ended = 0;
  bool lets_next_begin = false;
};

struct Launch {
  std::function<void()> body;
  int ctas_wanted = 0, threads = 0;
  std::uint32_t shared_bytes = 0;
  int device = 0;
  bool cooperative = false, dependent = false;
  std::shared_ptr<Launch> before;  // that it may overlap with the end of
  std::vector<std::unique_ptr<Cta>> ctas;
  std::vector<std::unique_ptr<Meeting>> clusters;
  int ended = 0, letting = 0;  // CTAs that have ended; that let the next launch begin, or have ended
  int made_room = 0;           // of those that have ended
  bool done() const { return ended == ctas_wanted; }
  bool lets_next_begin() const { return letting == ctas_wanted; }
  int units() const { return shared_bytes > (100u << 10) ? 2 : 1; }  // halves of a multiprocessor per CTA
};

// All that runs on the virtual GPUs of this process.
class Grid {
 public:
  explicit Grid(std::uint64_t seed) : fibers(seed) {}

  Fibers fibers;
  std::deque<Bulk> bulk;
  std::string fault;  // the first, to be read once `failed` is
  std::atomic<bool> failed = false;

  void begin_cta(Launch& launch);  // its next
  // Lets something happen. Returns whether anything but looking did.
  bool step();
  void report(std::string what);  // with the thread that does it
  void forget_fault() { failed = false; }
  void ask(Bulk copy);

 private:
  void advance(std::size_t index);
  void end_bulk(const Launch& launch);
  void end_thread(Thread& thread);
};

Grid& grid();
inline Thread& this_thread() { return *static_cast<Thread*>(Fibers::current_owner()); }

// The 32-bit address of shared memory that a kernel has of it; the first bytes have none.
inline constexpr std::uint32_t kSharedBase = 1024;
std::uint32_t shared_address_of(const void* p);
std::uint8_t* shared_at(Cta& cta, std::uint32_t address, std::uint32_t bytes);

void arrive_at(Barrier& barrier, int arrivals, std::int64_t expected_bytes);
void complete(Barrier& barrier, std::int64_t bytes);
Barrier& barrier_at(Cta& cta, std::uint32_t address);
void wait_for(Barrier& barrier, int parity);
inline bool has_passed(const Barrier& barrier, int parity) { return static_cast<int>(barrier.phase & 1) != parity; }

// What all threads of the warp give; valid until the caller meets them again.
const std::array<std::uint64_t, 32>& meet_warp(std::uint64_t mine);
void meet_cluster();
std::uint8_t* declared_memory(const void* type, std::size_t bytes);
void make_products();  // of the whole warpgroup, once all of it waits
void await_stores(bool written);
void await_launch_before();
void let_next_begin();
void check_fenced(const char* what);  // before a bulk load

}  // namespace virtual_gpu
