#include "weft/transport/local/shm_transport.h"

#include <unistd.h>

#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/process.h"

namespace weft {
namespace {

// From the end of the hub to the report of how the rank that served it ended (heartbeat.h).
constexpr std::chrono::seconds kLetPeersSpeak{1};

}  // namespace

ShmTransport::ShmTransport(ShmSeat seat)
    : LocalTransport(seat.rank, std::move(seat.control), int_size(seat.ranks)),
      ranks_(std::move(seat.ranks)),
      hub_(std::move(seat.hub)),
      hub_rank_(seat.hub_rank),
      launcher_(seat.launcher),
      socket_(std::move(seat.socket)) {}

void ShmTransport::attach() {
  try {
    watch_processes();
  } catch (...) {
    abort_with_current_exception(*this);
    throw;
  }
}

void ShmTransport::watch_processes() {
  beat(control(), rank());
  auto self = std::make_shared<const Fd>(open_process(getpid()));
  std::vector<std::shared_ptr<const Fd>> processes(num(size()));
  auto parcels = exchange_here({{}, std::move(self)}, "attach");
  for (std::size_t position = 0; position < parcels.size(); ++position)
    processes[ranks_[position]] = std::move(parcels[position].fd);
  heartbeat_.emplace(control(), rank(), std::move(processes), launcher_);
}

std::vector<std::string> ShmTransport::gather(const std::string& mine) {
  std::vector<std::string> texts;
  for (Parcel& parcel : exchange_here({mine, nullptr}, "a set-up call")) texts.push_back(std::move(parcel.text));
  return texts;
}

Parcel ShmTransport::own_piece(std::size_t bytes) const {
  Parcel mine;
  try {
    mine.fd = std::make_shared<const Fd>(make_memfd(bytes));
  } catch (const Error& error) {
    mine.text = error.what();  // goes to all ranks, which then fail alike
  }
  return mine;
}

std::vector<std::shared_ptr<void>> ShmTransport::share(std::uint32_t, const std::vector<std::size_t>& bytes) {
  std::vector<std::shared_ptr<void>> memory;
  for (const Parcel& parcel : exchange_here(own_piece(bytes[rank()]), "allocate")) {
    const int owner = int_size(memory);
    if (!parcel.fd) throw Error(Code::no_memory, fmt::format("rank {}: {}", owner, parcel.text), owner, host(owner));
    memory.push_back(map_shared(*parcel.fd, bytes[owner]));
  }
  return memory;
}

std::vector<Parcel> ShmTransport::exchange_here(Parcel mine, std::string_view call) {
  const std::uint32_t at = arrive();
  socket_.queue(pack({std::move(mine)}));
  const auto look_around = [&](std::chrono::nanoseconds waited) { keep_waiting(call, at, waited, ranks_); };
  const auto answer = receive_frame(socket_, look_around);
  if (!answer) blame_hub(look_around);
  auto parcels = unpack(*answer);
  if (parcels.size() != ranks_.size())
    fail(Code::io, "{} ranks answered in {}, expected {}", parcels.size(), call, ranks_.size());
  return parcels;
}

// The hub has hung up. Where it lived in a rank, that rank is to blame, and best in the words of whoever saw it end.
template <class LookAround>
void ShmTransport::blame_hub(LookAround&& look_around) {
  if (hub_rank_ < 0) fail(Code::peer_failed, "the launcher of this rank is gone");
  const auto stop = std::chrono::steady_clock::now() + kLetPeersSpeak;
  while (std::chrono::steady_clock::now() < stop) {
    look_around(std::chrono::nanoseconds(0));
    usleep(1000);
  }
  throw Error(Code::peer_failed, fmt::format("rank {}, which serves the others' set-up calls, is gone", hub_rank_),
              hub_rank_, host(hub_rank_));
}

std::unique_ptr<Transport> join_shm(ShmSeat seat) {
  auto transport = std::make_unique<ShmTransport>(std::move(seat));
  transport->attach();
  return transport;
}

}  // namespace weft
