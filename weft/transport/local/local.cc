#include "weft/transport/local/local.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <limits>
#include <utility>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/log.h"
#include "weft/transport/join/host_identity.h"
#include "weft/transport/local/memory.h"

namespace weft {
namespace {

constexpr std::size_t kMaxGatherBytes = 1 << 20;

}  // namespace

LocalTransport::LocalTransport(int rank, Control control, int ranks_here)
    : Transport(rank, control.num_ranks(), ranks_here),
      control_(std::move(control)),
      patience_(patience_from_env()),
      host_(host_identity().name),
      exceptions_at_birth_(std::uncaught_exceptions()) {}

LocalTransport::~LocalTransport() { leave(); }

void LocalTransport::leave() noexcept {
  if (std::exchange(has_left_, true)) return;
  if (std::uncaught_exceptions() > exceptions_at_birth_) abort("it ended with an exception");
  control_.rank(rank()).left.store(1, std::memory_order_seq_cst);
  for (int peer = 0; peer < size(); ++peer) ring_if_asleep(control_.rank(peer).bell);
}

std::vector<std::string> LocalTransport::all_gather(const std::string& mine) {
  if (mine.size() > kMaxGatherBytes)
    bad_input("all_gather is for control data of up to {} bytes, not {}; put more into a segment", kMaxGatherBytes,
              mine.size());
  return gather(mine);
}

// Two rounds. In the first everyone says what it wants and what its host has, read before anyone
// allocates, so all come to the same verdict; allocating first would wake the out-of-memory killer instead.
std::shared_ptr<Segment> LocalTransport::allocate(std::size_t bytes) {
  const auto answers = all_gather(fmt::format("allocate {} {}", bytes, available_memory_bytes()));
  auto segment = std::make_shared<Segment>();
  segment->id = ++segments_;
  std::vector<std::size_t> free;
  for (const std::string& answer : answers) {
    std::size_t wanted = 0;
    std::size_t available = 0;
    if (std::sscanf(answer.c_str(), "allocate %zu %zu", &wanted, &available) != 2)
      fail(Code::internal, "rank {} allocates while rank {} makes another set-up call", rank(), segment->bytes.size());
    segment->bytes.push_back(wanted);
    free.push_back(available);
  }
  require_memory(segment->bytes, free);
  segment->memory = share(segment->id, segment->bytes);
  for (const auto& memory : segment->memory) segment->base.push_back(static_cast<std::byte*>(memory.get()));
  return segment;
}

// Host by host: what its ranks ask for together, and the least that one of them saw free.
void LocalTransport::require_memory(const std::vector<std::size_t>& wanted,
                                    const std::vector<std::size_t>& free) const {
  struct Host {
    std::size_t wanted = 0, free = std::numeric_limits<std::size_t>::max();
    int largest = -1;  // the rank that asks for most
  };
  std::vector<Host> hosts(num(size()));
  for (int peer = 0; peer < size(); ++peer) {
    Host& host = hosts[host_index(peer)];
    host.free = std::min(host.free, free[peer]);
    if (__builtin_add_overflow(host.wanted, wanted[peer], &host.wanted))
      host.wanted = std::numeric_limits<std::size_t>::max();
    if (host.largest < 0 || wanted[peer] > wanted[host.largest]) host.largest = peer;
  }
  for (const Host& each : hosts)
    if (each.wanted > each.free)
      throw Error(Code::no_memory,
                  fmt::format("cannot allocate {} bytes for rank {} (host {}): all ranks there ask for {} and {} are "
                              "free; use smaller shapes or fewer ranks",
                              wanted[each.largest], each.largest, host(each.largest), each.wanted, each.free),
                  each.largest, host(each.largest));
}

void LocalTransport::abort(std::string_view reason, int failed_rank) noexcept {
  control_.report(rank(), failed_rank < 0 ? rank() : failed_rank, reason);
}

std::string LocalTransport::host(int) const { return host_; }

void LocalTransport::throw_failure() const {
  const Failure failure = control_.first_failure().value();
  if (failure.failed_rank < 0) throw Error(Code::peer_failed, failure.reason);
  const std::string where = host(failure.failed_rank);
  throw Error(Code::peer_failed,
              fmt::format("rank {} (host {}) failed: {}", failure.failed_rank, where, failure.reason),
              failure.failed_rank, where);
}

std::uint32_t LocalTransport::arrive() {
  check();
  return control_.rank(rank()).arrived.fetch_add(1, std::memory_order_seq_cst) + 1;
}

bool LocalTransport::all_arrived(std::uint32_t at) const {
  for (int peer = 0; peer < size(); ++peer)
    if (control_.rank(peer).arrived.load(std::memory_order_seq_cst) < at) return false;
  return true;
}

void LocalTransport::keep_waiting(std::string_view call, std::uint32_t at, std::chrono::nanoseconds waited,
                                  const std::vector<int>& awaited) {
  check();
  // All ranks hear whom this one blames before it unwinds, or the others would blame this one.
  const auto blame = [&](Code code, const std::string& what, int peer) {
    abort(what, peer);
    throw Error(code, what, peer, host(peer));
  };
  for (const int peer : awaited) {
    const RankState& state = control_.rank(peer);
    // Left before arrived: a rank arrives first and leaves later, never the other way round.
    const bool left = state.left.load(std::memory_order_seq_cst) != 0;
    if (state.arrived.load(std::memory_order_seq_cst) >= at) continue;
    if (left)
      blame(Code::peer_failed,
            fmt::format("rank {} (host {}) has ended, but rank {} waits for it in {}", peer, host(peer), rank(), call),
            peer);
    // One that has never come may not have begun: a program may load a file before it joins.
    if (state.arrived.load(std::memory_order_seq_cst) > 0 && silent_for(peer) > patience_.silence)
      blame(Code::peer_failed,
            fmt::format(
                "rank {} (host {}) has been silent for {:.1f} s: rank {} waits for it in {}; WEFT_DEADLINE_S sets "
                "the limit",
                peer, host(peer), seconds(silent_for(peer)), rank(), call),
            peer);
    if (waited > patience_.silence && std::exchange(late_in_, at) != at)
      log_line(fmt::format("rank {} has waited {:.1f} s in {} for rank {} (host {}), which is late", rank(),
                           seconds(waited), call, peer, host(peer)));
    if (waited > patience_.total)
      blame(Code::deadline,
            fmt::format(
                "rank {} waited {:.1f} s in {} for rank {} (host {}), silent for {:.1f} s; WEFT_WAIT_S sets the limit",
                rank(), seconds(waited), call, peer, host(peer), seconds(silent_for(peer))),
            peer);
  }
  if (waited > patience_.total)
    fail(Code::deadline, "rank {} waited {:.1f} s in {} for the launcher, though every rank has come", rank(),
         seconds(waited), call);
}

void abort_with_current_exception(Transport& transport) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    transport.abort(error.what(), error.rank() < transport.size() ? error.rank() : -1);
  } catch (const std::exception& error) {
    transport.abort(error.what());
  } catch (...) {
    transport.abort("it threw something that is no exception");
  }
}

}  // namespace weft
