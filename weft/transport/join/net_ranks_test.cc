// What ranks of several hosts run in net_test.cc. Hosts are made by WEFT_HOST (host_identity.h): processes of one
// machine that behave as if they could not share memory.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/process_ranks_test.h"
#include "weft/transport/local/shm.h"
#include "weft/transport/local/wait.h"
#include "weft/transport/wire/wire.h"

namespace weft::transport_test {
namespace {

using namespace std::chrono_literals;

std::int64_t clock_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int victim() { return std::atoi(std::getenv("WEFT_TEST_VICTIM")); }

// The hosts of the tests: a has ranks 0 and 1, b has ranks 2 and 3.
std::string host_of(int rank) { return rank < 2 ? "a" : "b"; }

// Every rank writes a row into the segment of the one with its place on the other host, and raises a counter there.
void cross(Transport& transport, Segment& segment) {
  constexpr std::size_t kRow = 256, kAt = 4096;
  const int me = transport.rank();
  const int peer = (me + 2) % 4;
  Wire& wire = *transport.wire();
  std::byte* row = wire.stage(kRow);
  std::memset(row, 'A' + me, kRow);
  const RemoteCounter counter{segment.id, 0};
  wire.put(peer, {.segment = segment.id, .offset = kAt, .rows = 1, .row_bytes = kRow, .stride = kRow}, row,
           {&counter, 1});
  wire.flush();
  const auto& raised = *reinterpret_cast<std::atomic<std::uint32_t>*>(segment.base[me]);
  wait_until(
      transport, Patience{}, [&] { return raised.load(std::memory_order_seq_cst) == 1; },
      [](std::chrono::nanoseconds waited) { expect(waited < 20s, "the other host's row"); });
  for (std::size_t i = 0; i < kRow; ++i)
    expect(segment.base[me][kAt + i] == static_cast<std::byte>('A' + peer), "every byte of it");
}

// Ranks 0 and 1, 2 and 3 share memory; all gather and allocate together.
int net_share() {
  const auto transport = join_launch(wire_from_env());
  const int me = transport->rank();
  expect(transport->name() == transport_name(wire_from_env().value_or(WireKind::tls)) && transport->size() == 4 &&
             transport->ranks_here() == 2,
         "four ranks, two here");
  for (int rank = 0; rank < 4; ++rank) {
    expect(transport->host_index(rank) == rank / 2, "two ranks per host");
    expect(transport->host(rank) == host_of(rank), "the hosts' names");
    expect(transport->reaches(rank) == (rank / 2 == me / 2), "memory shared within a host");
  }
  for (int round = 0; round < 20; ++round) {
    const auto texts = transport->all_gather(std::string(num(me) * 5000, 'a' + me));
    for (int rank = 0; rank < 4; ++rank)
      expect(texts[rank] == std::string(num(rank) * 5000, 'a' + rank), "everyone's text");
  }
  const auto segment = transport->allocate(num(me + 1) * 10'000);
  for (int rank = 0; rank < 4; ++rank)
    expect(segment->bytes[rank] == 10'000u * (rank + 1) && segment->base[rank] != nullptr, "everyone's size");
  for (std::size_t i = 0; i < segment->bytes[me]; ++i) expect(segment->base[me][i] == std::byte{0}, "zeroed memory");
  transport->barrier();
  const int neighbour = me ^ 1;
  segment->base[neighbour][9'000] = static_cast<std::byte>(me + 1);
  transport->barrier();
  expect(segment->base[me][9'000] == static_cast<std::byte>(neighbour + 1), "the neighbour's mark");
  if (transport->wire() != nullptr) cross(*transport, *segment);
  transport->barrier();
  return 0;
}

int net_refuse_memory() {
  const auto transport = join_launch(wire_from_env());
  try {
    transport->allocate(transport->rank() == 3 ? std::size_t{1} << 50 : 64);
    return 3;
  } catch (const Error& error) {
    expect(error.code() == Code::no_memory && error.rank() == 3 && error.host() == "b", "no_memory of rank 3 on b");
  }
  const auto segment = transport->allocate(64);
  return segment->id > 0 && segment->base.size() == 4 ? 0 : 4;
}

// One rank says where it is and waits for what comes; the others wait and say what they saw, and when.
int net_wait() {
  const auto transport = join_launch(wire_from_env());
  const int me = transport->rank();
  transport->barrier();
  if (me == victim()) leave_note("victim", std::to_string(getpid()));
  try {
    wait_until(
        *transport, Patience{}, [] { return false; }, [](auto) {});
  } catch (const Error& error) {
    const auto now = clock_ns();
    leave_note("seen" + std::to_string(me), fmt::format("{} {} {} {}", now, error.rank(), error.host(), error.what()));
    return 1;
  }
  return 3;
}

// The same in a set-up call that the victim never enters.
int net_wait_in_barrier() {
  const auto transport = join_launch(wire_from_env());
  const int me = transport->rank();
  transport->barrier();
  if (me == victim()) {
    leave_note("victim", std::to_string(getpid()));
    std::this_thread::sleep_for(40s);
  }
  try {
    transport->barrier();
  } catch (const Error& error) {
    leave_note("seen" + std::to_string(me),
               fmt::format("{} {} {} {}", clock_ns(), error.rank(), error.host(), error.what()));
    return 1;
  }
  return 3;
}

// Rank 3 is late, longer than the deadline of silence, but lives.
int net_late() {
  const auto transport = join_launch(wire_from_env());
  transport->barrier();
  if (transport->rank() == 3) std::this_thread::sleep_for(patience_from_env().silence * 3 / 2);
  transport->barrier();
  return 0;
}

// Rank 0 is done long before the others are.
int net_leave_early_in_zero() {
  const auto transport = join_launch(wire_from_env());
  transport->barrier();
  if (transport->rank() != 0) {
    std::this_thread::sleep_for(500ms);
    transport->check();
  }
  return 0;
}

int net_throw_in_three() {
  const auto transport = join_launch(wire_from_env());
  transport->barrier();
  if (transport->rank() == 3) bad_input("thrown past the transport");
  try {
    wait_until(
        *transport, Patience{}, [] { return false; }, [](auto) {});
  } catch (const Error& error) {
    leave_note("seen" + std::to_string(transport->rank()), fmt::format("{} {}", error.rank(), error.what()));
  }
  return 1;
}

// What this process listens at, as /proc/net/tcp and tcp6 say it: address in hexadecimal digits.
std::vector<std::string> listening() {
  std::vector<std::string> found;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream fields(line);
      std::string skip, local, remote, state, inode;
      fields >> skip >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      if (state != "0A") continue;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(entry.path(), gone) == "socket:[" + inode + "]")
          found.push_back(local.substr(0, local.find(':')));
      }
    }
  }
  return found;
}

int net_listen() {
  const auto transport = join_launch(wire_from_env());
  transport->barrier();
  const auto all = listening();
  if (transport->rank() == 0) expect(!all.empty(), "the hub of rank 0");
  for (const std::string& address : all)
    expect(address.find_first_not_of('0') != address.npos, "named interfaces only");
  for (const std::string& address : all) expect(address.ends_with("7F") && address.size() == 8, "the loopback only");
  transport->barrier();
  return 0;
}

// Through exit(), at which PMIx is told that this process ends in order.
int net_share_and_exit() {
  const int code = net_share();
  std::exit(code);
}

// A launcher of half of the world: WEFT_TEST_FIRST says which.
int net_launcher() {
  const int first = std::atoi(std::getenv("WEFT_TEST_FIRST"));
  LaunchOptions options = ranks(2, std::getenv("WEFT_TEST_BODY"));
  options.rendezvous = std::getenv("WEFT_TEST_RENDEZVOUS");
  options.first_rank = first;
  options.world_size = 4;
  const LaunchResult result = launch(options);
  leave_note(fmt::format("launched{}", first), fmt::format("{} {}", result.first_failed, result.reason));
  return result.exit_code();
}

}  // namespace

std::map<std::string, std::function<int()>> net_bodies() {
  return {
      {"net_share", net_share},
      {"net_refuse_memory", net_refuse_memory},
      {"net_wait", net_wait},
      {"net_wait_in_barrier", net_wait_in_barrier},
      {"net_late", net_late},
      {"net_leave_early_in_zero", net_leave_early_in_zero},
      {"net_throw_in_three", net_throw_in_three},
      {"net_listen", net_listen},
      {"net_share_and_exit", net_share_and_exit},
      {"net_launcher", net_launcher},
  };
}

}  // namespace weft::transport_test
