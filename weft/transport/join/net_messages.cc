#include "weft/transport/join/net_messages.h"

#include <cstring>

#include "weft/base/index.h"

namespace weft {
namespace {

struct FailureHeader {
  std::int32_t failed_rank;
  std::int32_t code;
  std::uint32_t host_bytes;
};

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <class T>
T read(std::string_view text) {
  if (text.size() < sizeof(T)) fail(Code::io, "a message between hosts is cut short");
  T value;
  std::memcpy(&value, text.data(), sizeof value);
  return value;
}

}  // namespace

Frame say(Says what, std::string_view text) {
  Frame frame;
  frame.bytes.reserve(text.size() + 1);
  frame.bytes += static_cast<char>(what);
  frame.bytes += text;
  return frame;
}

Frame say(const Beat& beat) { return say(Says::beat, bytes_of(beat)); }

Frame say(const std::vector<Pulse>& pulses) {
  return say(Says::digest, {reinterpret_cast<const char*>(pulses.data()), pulses.size() * sizeof(Pulse)});
}

Frame say(const NetFailure& failure) {
  const FailureHeader header{failure.failed_rank, static_cast<std::int32_t>(failure.code),
                             static_cast<std::uint32_t>(failure.host.size())};
  return say(Says::failure, std::string(bytes_of(header)) + failure.host + failure.reason);
}

Says kind_of(const Frame& frame) {
  if (frame.bytes.empty()) fail(Code::io, "a message between hosts is empty");
  return static_cast<Says>(frame.bytes.front());
}

std::string_view text_of(const Frame& frame) { return std::string_view(frame.bytes).substr(1); }

Beat beat_of(const Frame& frame) { return read<Beat>(text_of(frame)); }

std::vector<Pulse> pulses_of(const Frame& frame, int num_ranks) {
  const std::string_view text = text_of(frame);
  std::vector<Pulse> pulses(num(num_ranks));
  if (text.size() != pulses.size() * sizeof(Pulse)) fail(Code::io, "a digest is not of {} ranks", num_ranks);
  std::memcpy(pulses.data(), text.data(), text.size());
  return pulses;
}

NetFailure failure_of(const Frame& frame) {
  const std::string_view text = text_of(frame);
  const auto header = read<FailureHeader>(text);
  const std::string_view rest = text.substr(sizeof header);
  if (rest.size() < header.host_bytes) fail(Code::io, "a message between hosts is cut short");
  return {header.failed_rank, static_cast<Code>(header.code), std::string(rest.substr(0, header.host_bytes)),
          std::string(rest.substr(header.host_bytes))};
}

}  // namespace weft
