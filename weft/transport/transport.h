// How ranks find each other, share memory, sleep, wake and notice each other's death: the interface. Each
// rank holds one Transport. Ranks are threads of one process (threads.h) or processes of one machine (shm.h); in both,
// a peer's segment is reached by plain loads and stores. Ranks of several hosts (net.h) are processes that reach each
// other so within a host, and through a Wire (wire.h) between hosts.
//
// Set-up calls are collective: every rank makes them, in the same order, and never on the hot path. Each has
// the deadline of wait.h's Patience::total, and throws as soon as a peer is known to have failed or left.
// The hot path is bell(), check() and publish_progress(): no allocation, no lock, no system call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Bell;
class Wire;

inline constexpr int kAllHosts = -1;

// One segment per rank, and those of this host are mapped here: base[r] is that of rank r, page-aligned, zero at birth.
// A rank's mapping lives as long as its Segment; the memory itself until the last rank has let go. For a rank of
// another host base[r] begins a range of addresses without memory: good for reckoning offsets, which a Wire takes.
struct Segment {
  std::uint32_t id = 0;  // the same on all ranks, never used again
  std::vector<std::byte*> base;
  std::vector<std::size_t> bytes;
  std::vector<std::shared_ptr<void>> memory;  // what keeps base alive
};

class Transport {
 public:
  // Of the `size` ranks, `ranks_here` share this host.
  Transport(int rank, int size, int ranks_here);
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  virtual std::string_view name() const = 0;  // "threads", "shm", "tls" or "ucx"

  int ranks_here() const { return ranks_here_; }
  // Whether the ranks of this host outnumber the cores they may use, so that spinning takes time from the awaited peer.
  bool crowded() const { return crowded_; }

  // Collective. Sizes may differ; all memory is there when it returns, so that no later touch can fail. Where
  // a host has not enough, every rank throws no_memory naming bytes and rank, and may go on.
  virtual std::shared_ptr<Segment> allocate(std::size_t bytes) = 0;

  // Collective. Control data, up to 1 MB per rank: result[r] is what rank r gave.
  virtual std::vector<std::string> all_gather(const std::string& mine) = 0;

  // Collective. Returns when every rank has called it.
  void barrier() { all_gather({}); }

  virtual Bell& bell(int rank) = 0;

  // Which host a rank is on: 0, 1, ... in the order of their first ranks. Ranks of one host share memory.
  virtual int host_index(int) const { return 0; }
  bool reaches(int rank) const { return host_index(rank) == host_index(rank_); }  // by plain loads and stores
  // What carries stores and signals to the ranks it does not reach; null where it reaches all.
  virtual Wire* wire() { return nullptr; }

  // Until when the link from one host to another is busy, where local ranks are paced (pace.h). kAllHosts for one of
  // them makes it the other's NIC, out or in.
  virtual std::atomic<std::int64_t>& link_clock(int from_host, int to_host) = 0;

  // To be called in every wait loop; one relaxed load unless something happened. Once any rank has failed it
  // throws peer_failed with the rank that failed first, its host and its reason, now and ever after.
  virtual void check() = 0;

  // Tells all ranks that this one cannot go on: their waits throw within milliseconds. The first report
  // stands. `failed_rank` is the one to blame, by default this rank. Never throws.
  virtual void abort(std::string_view reason, int failed_rank = -1) noexcept = 0;

  // Says, once, that this rank needs its peers no more, so that its end is no failure; while an exception unwinds the
  // stack it is one. The destructor says so too, if it was not said before. Never throws.
  virtual void leave() noexcept = 0;
  virtual bool has_left(int rank) const = 0;

  // How long ago `rank` last showed life; always 0 for a thread. Grows while a process is stopped or hangs in
  // the kernel, and after it has left.
  virtual std::chrono::nanoseconds silent_for(int rank) const = 0;

  virtual std::string host(int rank) const = 0;

  // The last step each rank has reached, for messages ("rank 2 last reported step 12"); orders nothing.
  virtual void publish_progress(std::uint32_t step) = 0;
  virtual std::uint32_t progress_of(int rank) const = 0;

 private:
  int rank_;
  int size_;
  int ranks_here_;
  bool crowded_;
};

}  // namespace weft
