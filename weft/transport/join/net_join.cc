#include "weft/transport/join/net_join.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/join/directory.h"
#include "weft/transport/join/host_hub.h"
#include "weft/transport/join/host_identity.h"
#include "weft/transport/join/mpirun.h"
#include "weft/transport/join/net.h"
#include "weft/transport/join/net_address.h"
#include "weft/transport/join/net_handshake.h"
#include "weft/transport/join/pmix_job.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
constexpr auto kRetry = 50ms;        // between two attempts to reach rank 0
constexpr auto kOneAttempt = 2s;     // to connect
constexpr std::size_t kWorldId = 8;  // bytes

// What a rank needs to join, however it came to know it.
struct Ticket {
  int rank = 0, size = 1;
  HostIdentity host;
  std::string secret;
  NetAddress hub;      // where it is
  Fd listener = Fd();  // on rank 0: its socket
  bool has_launcher = false;
  std::optional<WireKind> wire = {};
  pollfd parent{-1, 0, 0};  // whose end is this rank's (heartbeat.h), where it has no launcher
};

struct HubConnection {
  FrameSocket socket;
  std::string device;  // that it goes through
};

HubConnection connect_to_hub(const Ticket& ticket, const Patience& patience) {
  const auto start = Clock::now();
  while (true) {
    std::string why = "it hung up";
    if (auto socket = try_connect(ticket.hub, std::min<std::chrono::nanoseconds>(kOneAttempt, patience.total))) {
      const std::string device = interface_of(local_address(*socket));
      auto hub = introduce(std::move(*socket), {ticket.rank, ticket.size, ticket.secret}, start + patience.total);
      if (hub) return {FrameSocket(std::move(hub)), device};
    } else {
      why = std::strerror(errno);
    }
    if (Clock::now() - start > patience.total)
      throw Error(
          Code::deadline,
          fmt::format("rank {} waited {:.1f} s for rank 0 to listen at {} ({}); start rank 0, or set "
                      "WEFT_WAIT_S to wait longer",
                      ticket.rank, std::chrono::duration<double>(patience.total).count(), to_string(ticket.hub), why),
          0);
    std::this_thread::sleep_for(kRetry);
  }
}

// What ranks tell each other first: their hosts, and rank 0 a name for the world. One field a line.
std::string introduction(const Ticket& ticket) {
  const std::string world = ticket.rank == 0 ? to_hex(sha256(random_bytes(kWorldId))).substr(0, 2 * kWorldId) : "";
  return fmt::format("{}\n{}\n{}", ticket.host.name, ticket.host.id, world);
}

struct Geography {
  std::vector<std::string> hosts;
  std::vector<int> host_index;
  std::vector<int> here;  // ranks of this host
  std::string world;
};

Geography learn_hosts(const std::vector<std::string>& answers, int rank) {
  Geography geography;
  std::vector<std::string> ids;
  for (const std::string& answer : answers) {
    const std::size_t name = answer.find('\n');
    const std::size_t id = answer.find('\n', name + 1);
    if (id == std::string::npos) fail(Code::io, "a rank's introduction is cut short");
    const std::string host = answer.substr(name + 1, id - name - 1);
    const auto known = std::find(ids.begin(), ids.end(), host);
    geography.host_index.push_back(static_cast<int>(known - ids.begin()));
    if (known == ids.end()) ids.push_back(host);
    geography.hosts.push_back(answer.substr(0, name));
    if (geography.world.empty()) geography.world = answer.substr(id + 1);
  }
  for (int peer = 0; peer < int_size(answers); ++peer)
    if (geography.host_index[peer] == geography.host_index[rank]) geography.here.push_back(peer);
  return geography;
}

ShmSeat meet_on_host(const Ticket& ticket, const Geography& geography) {
  const auto& here = geography.here;
  if (here.size() > kMaxLocalRanks)
    bad_input("host {} has {} ranks; use up to {} a host", ticket.host.name, here.size(), kMaxLocalRanks);
  ShmSeat seat =
      meet({.name = fmt::format("weft {} {} {}", geteuid(), geography.world, geography.host_index[ticket.rank]),
            .job = "this world",
            .rank = ticket.rank,
            .ranks = here,
            .world_size = ticket.size});
  seat.launcher = ticket.parent;
  return seat;
}

// Throws once a rank of this host is known to have failed, or to have ended without ever coming.
void look_at_launch(const Control& control, int rank) {
  for (int peer = 0; peer < control.num_ranks(); ++peer)
    if (control.rank(peer).left.load() != 0 && control.rank(peer).arrived.load() == 0)
      control.report(rank, peer, "it ended without calling World::init");
  const auto failure = control.first_failure();
  if (!failure) return;
  const std::string host = failure->failed_rank < 0 ? "" : control.host(failure->failed_rank);
  throw Error(Code::peer_failed,
              fmt::format("rank {}{} failed: {}", failure->failed_rank, host.empty() ? "" : " (host " + host + ")",
                          failure->reason),
              failure->failed_rank, host);
}

// Of whoever does not come, the hub says so; of a hub that does not answer, the client. A launcher may have seen a rank
// end that never reached the hub.
std::unique_ptr<Transport> take_place(const Ticket& ticket, NetSeat net) {
  std::optional<ShmSeat> seat;
  if (ticket.has_launcher) {
    seat = seat_at_launcher(ticket.rank, ticket.size, {});
    net.client->watch(seat->control, {});
  }
  const auto answers = net.client->gather(introduction(ticket), [&](auto) {
    if (seat) look_at_launch(seat->control, ticket.rank);
  });
  Geography geography = learn_hosts(answers, ticket.rank);
  if (!seat) seat = meet_on_host(ticket, geography);
  seat->ranks = geography.here;
  std::vector<int> remote;
  for (int peer = 0; peer < ticket.size; ++peer)
    if (geography.host_index[peer] != geography.host_index[ticket.rank]) remote.push_back(peer);
  for (int peer = 0; peer < ticket.size; ++peer) seat->control.set_host(peer, geography.hosts[peer]);
  net.client->watch(seat->control, std::move(remote));
  net.secret = key_from(ticket.secret, "weft world " + geography.world);
  net.hosts = std::move(geography.hosts);
  net.host_index = std::move(geography.host_index);
  auto transport = std::make_unique<NetTransport>(std::move(*seat), std::move(net));
  transport->attach();
  return transport;
}

std::unique_ptr<Transport> join(Ticket ticket) {
  if (!tls_available()) lacks_tls();
  const Patience patience = patience_from_env();
  NetSeat net;
  if (ticket.rank == 0)
    net.hub = std::make_shared<NetHub>(ticket.size, std::move(ticket.listener), ticket.secret, patience);
  HubConnection hub = net.hub ? HubConnection{FrameSocket(net.hub->take_own_end()), interface_of(ticket.hub)}
                              : connect_to_hub(ticket, patience);
  net.wire = ticket.wire;
  net.device = hub.device;
  net.client = std::make_shared<NetClient>(std::move(hub.socket),
                                           NetClient::Options{ticket.rank, ticket.size, ticket.host.name, patience});
  const auto client = net.client;
  try {
    return take_place(ticket, std::move(net));
  } catch (const std::exception& error) {
    client->give_up(error.what());
    throw;
  }
}

constexpr const char* kHubKey = "weft.hub";
constexpr const char* kHostKey = "weft.host";
constexpr const char* kMeetingKey = "weft.meeting";

std::string new_secret() { return to_hex(sha256(random_bytes(64))); }

// Rank 0 listens before it says where, so that nobody else can take the port in between.
void find_hub(Ticket* ticket, const Directory& directory, const std::string& daemon) {
  if (ticket->rank == 0) {
    Listener listener = listen_at(own_address(ticket->host.name, daemon));
    ticket->secret = new_secret();
    ticket->hub = listener.bound;
    ticket->listener = std::move(listener.socket);
    directory.publish(kHubKey, to_string(ticket->hub) + " " + ticket->secret);
    return;
  }
  const std::string text = directory.look_up(0, kHubKey);
  ticket->hub = parse_address(text.substr(0, text.find(' ')));
  ticket->secret = text.substr(text.find(' ') + 1);
}

// All on one host: the name of their socket is all they need to know.
std::unique_ptr<Transport> meet_by(const Directory& directory) {
  std::string world;
  if (directory.rank == 0) {
    world = new_secret().substr(0, 4 * kWorldId);
    directory.publish(kMeetingKey, world);
  } else {
    world = directory.look_up(0, kMeetingKey);
  }
  return join_shm(meet({.name = fmt::format("weft {} {}", geteuid(), world),
                        .job = "this world",
                        .rank = directory.rank,
                        .ranks = ranks_from(0, directory.size),
                        .world_size = directory.size}));
}

int number_of_ticket(const char* name, int least, int most) {
  const char* text = std::getenv(name);
  if (text == nullptr)
    bad_input("{} is set but {} is not; set WEFT_RANK and WEFT_SIZE too, or use `weft run --rendezvous`",
              kRendezvousEnv, name);
  return parse_env_number(name, text, {least, most}, "weft run -n N --rendezvous HOST:PORT -- PROG");
}

void only_once() {
  static std::atomic<bool> joined{false};
  if (joined.exchange(true)) bad_input("this process has joined its world already; call World::init once");
}

}  // namespace

std::unique_ptr<Transport> attach_rendezvous(std::optional<WireKind> wire) {
  Ticket ticket;
  ticket.wire = wire;
  ticket.size = number_of_ticket(kSizeEnv, 1, kMaxWorldRanks);
  ticket.rank = number_of_ticket(kRankEnv, 0, ticket.size - 1);
  ticket.secret = secret_from_env();
  ticket.host = host_identity();
  ticket.hub = parse_address(std::getenv(kRendezvousEnv));
  ticket.has_launcher = std::getenv(kRendezvousFdEnv) != nullptr;
  only_once();
  if (ticket.rank == 0) ticket.listener = listen_at(ticket.hub).socket;
  return join(std::move(ticket));
}

std::unique_ptr<Transport> attach_mpirun_hosts(int rank, int size, int ranks_here, std::optional<WireKind> wire) {
  if (!PmixJob::available())
    bad_input(
        "{} of the {} ranks of this mpirun job are on this host, and this build of Weft has no PMIx to find the "
        "others: "
        "install libpmix-dev and build again, or use `mpirun --host localhost:{} -n {}`",
        ranks_here, size, size, size);
  // As long as the process: an MPI_Init after the last user of PMIx has finished with it would find it broken.
  static PmixJob job;
  Directory directory{rank, size};
  directory.publish = [](const std::string& key, const std::string& text) { job.publish(key, text); };
  directory.look_up = [](int of, const std::string& key) { return job.look_up(of, key, patience_from_env().total); };
  Ticket ticket;
  ticket.rank = rank;
  ticket.size = size;
  ticket.wire = wire;
  ticket.host = std::getenv(kHostEnv) != nullptr ? host_identity() : HostIdentity{job.host(), job.node()};
  ticket.parent = watch_parent();
  const char* daemon = std::getenv("OMPI_MCA_orte_local_daemon_uri");  // that of mpirun on this host
  find_hub(&ticket, directory, daemon == nullptr ? "" : daemon);
  return join(std::move(ticket));
}

std::unique_ptr<Transport> attach_directory(const Directory& directory, std::optional<WireKind> wire) {
  if (directory.size < 1 || directory.size > kMaxWorldRanks || directory.rank < 0 || directory.rank >= directory.size)
    bad_input("rank {} of {} cannot join: a world has 1 to {} ranks, counted from 0", directory.rank, directory.size,
              kMaxWorldRanks);
  Ticket ticket;
  ticket.rank = directory.rank;
  ticket.size = directory.size;
  ticket.wire = wire;
  ticket.host = host_identity();
  directory.publish(kHostKey, ticket.host.id);
  bool one_host = directory.size <= kMaxLocalRanks;
  for (int rank = 0; rank < directory.size && one_host; ++rank)
    one_host = directory.look_up(rank, kHostKey) == ticket.host.id;
  if (one_host) return meet_by(directory);
  find_hub(&ticket, directory, "");
  return join(std::move(ticket));
}

}  // namespace weft
