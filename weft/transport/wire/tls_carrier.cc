#include "weft/transport/wire/tls_carrier.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/join/net_handshake.h"

namespace weft {
namespace {

constexpr std::uint64_t kListenerTag = 1ULL << 32, kCallerTag = 2ULL << 32;  // with a descriptor; a rank has neither
constexpr std::chrono::seconds kCallerTime{5};                               // to prove who he is
constexpr std::size_t kMostCallers = 64;
constexpr int kMostCalls = 20;  // a flood of strangers may have cost this rank its place in the line

std::string identity_of(int from, int to) { return fmt::format("weft wire {} {}", from, to); }

void set_watched(const Fd& epoll, int operation, int fd, std::uint64_t tag, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(epoll.get(), operation, fd, &event) != 0)
    fail(Code::io, "cannot watch a connection: {}", std::strerror(errno));
}

}  // namespace

TlsCarrier::TlsCarrier(const WireHost& host, Events& events)
    : events_(events),
      rank_(host.rank),
      secret_(host.secret),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      links_(num(host.size)),
      scratch_(TlsStream::kRecord) {
  if (!tls_available()) lacks_tls();
  if (!epoll_) fail(Code::io, "cannot make an epoll descriptor: {}", std::strerror(errno));
  awaited_ = num(std::count_if(host.peers.begin(), host.peers.end(), [&](int peer) { return peer > rank_; }));
  const NetAddress own = address_of_device(host.device);  // refuses one that is not there
  if (awaited_ == 0) return;
  listener_ = listen_at(own);
  set_watched(epoll_, EPOLL_CTL_ADD, listener_.socket.get(), kListenerTag, EPOLLIN);
}

std::string TlsCarrier::address() const { return listener_.socket ? to_string(listener_.bound) : ""; }

// --- who calls ---

// -1 where no rank that is to call this one is called so.
int TlsCarrier::rank_named_by(std::string_view identity) const {
  for (int peer = rank_ + 1; peer < int_size(links_); ++peer)
    if (identity == identity_of(peer, rank_)) {
      const Link& link = links_[at(peer)];
      return link.stream || link.dropped ? -1 : peer;
    }
  return -1;
}

std::string TlsCarrier::key_for(std::string_view identity) const { return key_from(secret_, identity); }

// Who has called longest without proving anything makes room for the next: idle strangers keep nobody out.
void TlsCarrier::admit() {
  std::erase_if(callers_, [](const Caller& caller) { return Clock::now() - caller.since > kCallerTime; });
  if (callers_.size() >= kMostCallers) callers_.erase(callers_.begin());
  Fd socket = accept_one(listener_.socket);
  if (!socket) {
    if ((errno == EMFILE || errno == ENFILE) && !callers_.empty()) callers_.erase(callers_.begin());
    return;
  }
  const int fd = socket.get();
  auto stream = TlsStream::server(std::move(socket), [this](std::string_view identity) {
    return rank_named_by(identity) < 0 ? std::string() : key_for(identity);
  });
  set_watched(epoll_, EPOLL_CTL_ADD, fd, kCallerTag | num(fd), EPOLLIN);
  callers_.push_back({std::move(stream), Clock::now()});
}

void TlsCarrier::turn(int fd) {
  const auto caller = std::find_if(callers_.begin(), callers_.end(),
                                   [&](const Caller& candidate) { return candidate.stream->fd() == fd; });
  if (caller == callers_.end()) return;
  const auto state = caller->stream->shake();
  if (state == TlsStream::Shake::waiting)
    return set_watched(epoll_, EPOLL_CTL_MOD, fd, kCallerTag | num(fd),
                       caller->stream->wants_to_write() ? EPOLLOUT : EPOLLIN);
  auto stream = std::move(caller->stream);
  callers_.erase(caller);
  if (state == TlsStream::Shake::done) seat(std::move(stream));
}

void TlsCarrier::seat(std::unique_ptr<TlsStream> stream) {
  const int peer = rank_named_by(stream->identity());
  if (peer < 0) return;  // another one that proved it was quicker
  Link& link = links_[at(peer)];
  link.stream = std::move(stream);
  link.open = true;
  link.watched = EPOLLIN;
  set_watched(epoll_, EPOLL_CTL_MOD, link.stream->fd(), num(peer), EPOLLIN);
  if (--awaited_ == 0) stop_listening();
  read_some(peer);  // what came with the handshake is in the stream: the socket would not tell
  if (link.stream) write_some(peer);
}

void TlsCarrier::stop_listening() {
  listener_.socket = {};
  callers_.clear();
}

// --- calling ---

void TlsCarrier::connect(int peer, std::string_view address) {
  if (peer > rank_) return;  // it calls
  links_[at(peer)].address = parse_address(address);
  call(peer);
}

void TlsCarrier::call(int peer) {
  Link& link = links_[at(peer)];
  ++link.calls;
  const std::string identity = identity_of(rank_, peer);
  link.stream = TlsStream::client(begin_connect(link.address), identity, key_for(identity));
  link.watched = EPOLLIN | EPOLLOUT;
  set_watched(epoll_, EPOLL_CTL_ADD, link.stream->fd(), num(peer), link.watched);
}

void TlsCarrier::shake(int peer) {
  Link& link = links_[at(peer)];
  switch (link.stream->shake()) {
    case TlsStream::Shake::waiting:
      return watch(peer);
    case TlsStream::Shake::done:
      link.open = true;
      return write_some(peer);
    case TlsStream::Shake::failed:
      if (link.stream->hung_up() && link.calls < kMostCalls) return call(peer);
      return lose(peer, link.stream->problem());
  }
}

// --- messages ---

bool TlsCarrier::progress() {
  epoll_event events[16];
  const int num_events = epoll_wait(epoll_.get(), events, 16, 0);
  for (int i = 0; i < num_events; ++i) {
    const std::uint64_t tag = events[i].data.u64;
    if (tag < kListenerTag)
      visit(static_cast<int>(tag), events[i].events);
    else if (tag >= kCallerTag)
      turn(static_cast<int>(tag - kCallerTag));
    else if (listener_.socket)
      admit();
  }
  return num_events > 0;
}

void TlsCarrier::visit(int peer, std::uint32_t events) {
  const Link& link = links_[at(peer)];
  if (!link.stream) return;
  if (!link.open) shake(peer);
  if (link.stream && link.open && (events & ~EPOLLOUT) != 0) read_some(peer);
  if (link.stream && link.open && (events & EPOLLOUT) != 0) write_some(peer);
}

void TlsCarrier::read_some(int peer) {
  Link& link = links_[at(peer)];
  do {
    if (link.inbox.size() < link.filled + TlsStream::kRecord) link.inbox.resize(link.filled + TlsStream::kRecord);
    const auto count = link.stream->read(std::span(link.inbox).subspan(link.filled));
    if (count < 0) {
      const std::string& problem = link.stream->problem();
      return lose(peer, problem.empty() ? "its connection closed" : problem);
    }
    if (count == 0) return;
    link.filled += num(count);
    take_messages(peer);
  } while (link.stream && link.stream->has_more());
}

// A message starts a record, and records come one by one: once it is whole, nothing lies behind it, unless the peer
// sends otherwise.
void TlsCarrier::take_messages(int peer) {
  Link& link = links_[at(peer)];
  std::size_t begin = 0;
  while (link.filled - begin >= sizeof(MessageHeader)) {
    MessageHeader header;
    std::memcpy(&header, link.inbox.data() + begin, sizeof header);
    const std::size_t num_counters = std::size_t{header.counters_before} + header.counters_after;
    const std::uint64_t data_bytes = std::uint64_t{header.rows} * header.row_bytes;
    if (num_counters > kMostCounters || data_bytes > kMostData || header.from != num(peer))
      return lose(peer, fmt::format("it sent a message of {} bytes with {} counters in the name of rank {}", data_bytes,
                                    num_counters, header.from));
    const std::size_t head_bytes = sizeof header + num_counters * sizeof(MessageCounter);
    if (link.filled - begin < head_bytes + data_bytes) break;
    const std::span<const std::byte> whole(link.inbox.data() + begin, head_bytes + data_bytes);
    events_.received(peer, whole.first(head_bytes), whole.subspan(head_bytes));
    begin += whole.size();
  }
  if (begin > 0) std::memmove(link.inbox.data(), link.inbox.data() + begin, link.filled - begin);
  link.filled -= begin;
}

void TlsCarrier::send(int peer, Message& message) {
  Link& link = links_[at(peer)];
  if (link.dropped) return events_.sent(message);
  ++under_way_;
  link.line.push_back(&message);
  if (link.open && link.line.size() == 1) write_some(peer);
}

// Head and rows as one run of bytes, from `written` on: where a piece has part of both, they are copied together.
std::span<const std::byte> TlsCarrier::next_piece(const Message& message, std::size_t written) {
  const std::size_t head_bytes = message.head_bytes();
  const auto* head = reinterpret_cast<const std::byte*>(&message.header);
  if (written >= head_bytes) {
    const std::size_t at_data = written - head_bytes;
    return {message.data + at_data, std::min(message.data_bytes() - at_data, TlsStream::kRecord)};
  }
  const std::size_t of_head = head_bytes - written;
  const std::size_t of_data = std::min(message.data_bytes(), TlsStream::kRecord - of_head);
  std::memcpy(scratch_.data(), head + written, of_head);
  if (of_data > 0) std::memcpy(scratch_.data() + of_head, message.data, of_data);
  return {scratch_.data(), of_head + of_data};
}

void TlsCarrier::write_some(int peer) {
  Link& link = links_[at(peer)];
  while (!link.line.empty()) {
    Message& message = *link.line.front();
    const std::size_t all = message.head_bytes() + message.data_bytes();
    const auto piece = next_piece(message, link.written);
    const bool last = link.written + piece.size() == all;
    const auto count = link.stream->write(piece, last ? TlsStream::Follows::nothing : TlsStream::Follows::more);
    if (count < 0) return lose(peer, link.stream->problem());
    if (count == 0) break;
    link.written += num(count);
    if (link.written < all) continue;
    link.written = 0;
    link.line.pop_front();
    --under_way_;
    events_.sent(message);
  }
  watch(peer);
}

// Room to write is of interest only to who has something to write.
void TlsCarrier::watch(int peer) {
  Link& link = links_[at(peer)];
  const bool writes = link.open ? !link.line.empty() : link.stream->wants_to_write();
  const std::uint32_t wanted = EPOLLIN | (writes ? EPOLLOUT : 0u);
  if (wanted == link.watched) return;
  link.watched = wanted;
  set_watched(epoll_, EPOLL_CTL_MOD, link.stream->fd(), num(peer), wanted);
}

void TlsCarrier::lose(int peer, std::string reason) {
  drop(peer);
  events_.failed(peer, std::move(reason));
}

void TlsCarrier::drop(int peer) {
  Link& link = links_[at(peer)];
  if (!link.stream && !link.dropped && peer > rank_ && awaited_ > 0) --awaited_;
  link.dropped = true;
  link.open = false;
  link.stream.reset();
  link.inbox = {};
  link.filled = link.written = 0;
  for (Message* message : std::exchange(link.line, {})) {
    --under_way_;
    events_.sent(*message);
  }
}

// Closing a socket with something unread in it would take back what was sent: read until the peer has closed too, which
// it does when it has read all.
void TlsCarrier::finish(std::chrono::nanoseconds at_most) {
  stop_listening();
  for (int peer = 0; peer < int_size(links_); ++peer) {
    Link& link = links_[at(peer)];
    const bool in_order = link.open && link.line.empty();
    if (in_order) link.stream->finish();
    if (!in_order) drop(peer);
  }
  const auto stop = Clock::now() + at_most;
  const auto open = [&] {
    return std::any_of(links_.begin(), links_.end(), [](const Link& link) { return link.stream != nullptr; });
  };
  while (open() && Clock::now() < stop) {
    for (int peer = 0; peer < int_size(links_); ++peer) {
      const auto& stream = links_[at(peer)].stream;
      while (stream && stream->read(scratch_) > 0) {
      }
      if (stream && stream->read(scratch_) < 0) drop(peer);
    }
    pollfd descriptor{epoll_.get(), POLLIN, 0};
    if (open()) poll(&descriptor, 1, 10);
  }
}

}  // namespace weft
