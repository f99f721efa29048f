#include "weft/transport/join/rendezvous.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::size_t kMaxFds = 253;               // SCM_MAX_FD of the kernel
constexpr std::uint64_t kMaxBytes = 256ULL << 20;  // of a frame: 1 MB a rank and to spare

struct FrameHeader {
  std::uint64_t bytes;
  std::uint64_t num_fds;
};

struct ParcelHeader {
  std::uint32_t bytes;
  std::uint32_t num_fds;  // 0 or 1
};

template <class Header>
Header read_header(const char* at) {
  Header header;
  std::memcpy(&header, at, sizeof header);
  return header;
}

template <class Header>
void append_header(std::string& bytes, const Header& header) {
  bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
}

using FdSpace = std::array<char, CMSG_SPACE(kMaxFds * sizeof(int))>;

void attach_fds(msghdr& message, FdSpace& space, const std::vector<std::shared_ptr<const Fd>>& fds) {
  if (fds.empty()) return;
  message.msg_control = space.data();
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  for (std::size_t i = 0; i < fds.size(); ++i) {
    const int fd = fds[i]->get();
    std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
  }
}

void take_fds(msghdr& message, std::deque<std::shared_ptr<const Fd>>& fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.push_back(std::make_shared<const Fd>(fd));
    }
  }
}

}  // namespace

FrameSocket::FrameSocket(Fd socket) : socket_(std::move(socket)) {
  fcntl(socket_.get(), F_SETFD, FD_CLOEXEC);
  fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

FrameSocket::FrameSocket(std::unique_ptr<TlsStream> stream) : tls_(std::move(stream)) {}

void FrameSocket::queue(Frame frame) {
  std::string framed;
  framed.reserve(sizeof(FrameHeader) + frame.bytes.size());
  append_header(framed, FrameHeader{frame.bytes.size(), frame.fds.size()});
  framed += frame.bytes;
  outgoing_.push_back({std::move(framed), std::move(frame.fds)});
}

bool FrameSocket::transfer() {
  const bool sent = tls_ ? send_sealed() : send_some();
  const bool received = tls_ ? receive_sealed() : receive_some();
  return sent && received;
}

void FrameSocket::finish() {
  if (tls_)
    tls_->finish();
  else
    shutdown(socket_.get(), SHUT_WR);
}

bool FrameSocket::send_sealed() {
  while (!outgoing_.empty()) {
    const std::string& bytes = outgoing_.front().bytes;
    const auto count = tls_->write(std::as_bytes(std::span(bytes)).subspan(sent_));
    if (count <= 0) return count == 0;
    sent_ += num(count);
    if (sent_ < bytes.size()) continue;
    outgoing_.pop_front();
    sent_ = 0;
  }
  return true;
}

bool FrameSocket::receive_sealed() {
  std::array<std::byte, TlsStream::kRecord> buffer;
  while (true) {
    const auto count = tls_->read(buffer);
    if (count <= 0) return count == 0;
    incoming_.append(reinterpret_cast<const char*>(buffer.data()), num(count));
  }
}

bool FrameSocket::send_some() {
  FdSpace space{};
  while (!outgoing_.empty()) {
    Frame& frame = outgoing_.front();
    iovec part{frame.bytes.data() + sent_, frame.bytes.size() - sent_};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (sent_ == 0) attach_fds(message, space, frame.fds);
    const ssize_t count = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return true;
      if (errno != ETOOMANYREFS) return false;
      usleep(1000);  // too many descriptors under way for this user; peers are taking theirs out
      return true;
    }
    sent_ += num(count);
    if (sent_ < frame.bytes.size()) continue;
    outgoing_.pop_front();
    sent_ = 0;
  }
  return true;
}

bool FrameSocket::receive_some() {
  std::array<char, 16384> buffer;
  FdSpace space;
  while (true) {
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    const ssize_t count = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    take_fds(message, incoming_fds_);
    if ((message.msg_flags & MSG_CTRUNC) != 0)
      fail(Code::io, "cannot receive the peers' memory: too many open files; raise `ulimit -n`");
    incoming_.append(buffer.data(), num(count));
  }
}

std::optional<Frame> FrameSocket::next() {
  if (incoming_.size() < sizeof(FrameHeader)) return std::nullopt;
  const auto header = read_header<FrameHeader>(incoming_.data());
  if (header.bytes > kMaxBytes || header.num_fds > kMaxFds)
    fail(Code::io, "a set-up message of {} bytes is beyond the limit of {}", header.bytes, kMaxBytes);
  if (incoming_.size() < sizeof header + header.bytes || incoming_fds_.size() < header.num_fds) return std::nullopt;
  Frame frame{incoming_.substr(sizeof header, header.bytes), {}};
  incoming_.erase(0, sizeof header + header.bytes);
  const auto end = incoming_fds_.begin() + header.num_fds;
  frame.fds.assign(incoming_fds_.begin(), end);
  incoming_fds_.erase(incoming_fds_.begin(), end);
  return frame;
}

Frame pack(const std::vector<Parcel>& parcels) {
  Frame frame;
  for (const Parcel& parcel : parcels) {
    append_header(frame.bytes, ParcelHeader{static_cast<std::uint32_t>(parcel.text.size()), parcel.fd ? 1U : 0U});
    frame.bytes += parcel.text;
    if (parcel.fd) frame.fds.push_back(parcel.fd);
  }
  return frame;
}

std::vector<Parcel> unpack(const Frame& frame) {
  std::vector<Parcel> parcels;
  std::size_t fds_taken = 0;
  for (std::size_t at = 0; at < frame.bytes.size();) {
    if (frame.bytes.size() - at < sizeof(ParcelHeader)) fail(Code::io, "a set-up message is cut short");
    const auto header = read_header<ParcelHeader>(frame.bytes.data() + at);
    at += sizeof header;
    if (frame.bytes.size() - at < header.bytes || frame.fds.size() - fds_taken < header.num_fds)
      fail(Code::io, "a set-up message is cut short");
    parcels.push_back({frame.bytes.substr(at, header.bytes), nullptr});
    at += header.bytes;
    if (header.num_fds != 0) parcels.back().fd = frame.fds[fds_taken++];
  }
  return parcels;
}

Hub::Hub(int num_ranks, std::shared_ptr<const Fd> control) : control_(std::move(control)), seats_(num(num_ranks)) {}

Fd Hub::take_rank_end(int rank) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(Code::io, "cannot make a socket pair: {}", std::strerror(errno));
  seat(rank, Fd(ends[0]));
  return Fd(ends[1]);
}

void Hub::seat(int rank, Fd socket) {
  Seat& seat = seats_[rank];
  seat.socket = FrameSocket(std::move(socket));
  seat.socket.queue({{}, {control_}});
  seat.open = true;
}

bool Hub::has_outgoing() const {
  return std::any_of(seats_.begin(), seats_.end(),
                     [](const Seat& seat) { return seat.open && seat.socket.has_outgoing(); });
}

void Hub::add_polls(std::vector<pollfd>& polls) const {
  for (const Seat& seat : seats_)
    polls.push_back(seat.open ? pollfd{seat.socket.fd(), seat.socket.events(), 0} : pollfd{-1, 0, 0});
}

void Hub::serve() {
  do {
    for (Seat& seat : seats_)
      if (seat.open) collect(seat);
  } while (answer_if_complete());  // sends the answer, and takes what came meanwhile
}

void Hub::collect(Seat& seat) {
  seat.open = seat.socket.transfer();
  while (const auto frame = seat.socket.next()) {
    auto parcels = unpack(*frame);
    if (parcels.size() != 1) fail(Code::io, "a rank sent {} parcels at once", parcels.size());
    if (!seat.process) seat.process = parcels.front().fd;
    seat.parcels.push_back(std::move(parcels.front()));
  }
}

bool Hub::answer_if_complete() {
  const auto has_come = [](const Seat& seat) { return !seat.parcels.empty(); };
  if (!std::all_of(seats_.begin(), seats_.end(), has_come)) return false;
  std::vector<Parcel> parcels;
  for (Seat& seat : seats_) {
    parcels.push_back(std::move(seat.parcels.front()));
    seat.parcels.pop_front();
  }
  const Frame answer = pack(parcels);
  for (Seat& seat : seats_)
    if (seat.open) seat.socket.queue(answer);
  return true;
}

}  // namespace weft
