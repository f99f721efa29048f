// Strangers for tests: whoever is on the network and does not hold the secret. They do to a port what they can, and a
// Tap stands between two ends, to hear what a rank says and to say it again.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/index.h"
#include "weft/transport/join/net_address.h"
#include "weft/transport/wire/tls_stream.h"

namespace weft::strangers {

inline Fd call(const NetAddress& port) {
  auto socket = try_connect(port, std::chrono::seconds(2));
  return socket ? std::move(*socket) : Fd();
}

inline void say(const Fd& socket, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = send(socket.get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN) return;  // hung up on
    if (count > 0) at += num(count);
  }
}

// The first bytes of a handshake by whoever calls himself `identity` with a key that is none.
inline std::string hello_of(const std::string& identity) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0) return {};
  const Fd heard(ends[1]);
  const auto client = TlsStream::client(Fd(ends[0]), identity, std::string(TlsStream::kKeyBytes, 'x'));
  client->shake();
  std::string text(4096, '\0');
  const ssize_t count = recv(heard.get(), text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : num(count));
  return text;
}

// One way to trouble a port, by `identity` where it takes one; what it leaves open stays so until it is dropped.
struct Attack {
  const char* name;
  std::function<std::vector<Fd>(const NetAddress& port, const std::string& identity)> begin;
};

inline std::vector<Fd> say_once(const NetAddress& port, const std::string& text) {
  std::vector<Fd> open;
  open.push_back(call(port));
  say(open.back(), text);
  return open;
}

inline const std::vector<Attack>& attacks() {
  static const std::vector<Attack> all = {
      {"idle",
       [](const NetAddress& port, const std::string&) {
         std::vector<Fd> open;
         for (int i = 0; i < 300; ++i) open.push_back(call(port));
         return open;
       }},
      {"ones", [](const NetAddress& port, const std::string&) { return say_once(port, std::string(4096, '\xff')); }},
      {"http", [](const NetAddress& port, const std::string&) { return say_once(port, "GET / HTTP/1.1\r\n\r\n"); }},
      {"wrong key", [](const NetAddress& port, const std::string& who) { return say_once(port, hello_of(who)); }},
      {"no such name", [](const NetAddress& port, const std::string&) { return say_once(port, hello_of("root")); }},
      {"no key", [](const NetAddress& port, const std::string&) { return say_once(port, hello_of("")); }},
      {"truncated",
       [](const NetAddress& port, const std::string& who) {
         for (const std::size_t bytes : {1, 4, 5, 6, 40, 100}) say_once(port, hello_of(who).substr(0, bytes));
         return std::vector<Fd>();
       }},
      {"slow loris",
       [](const NetAddress& port, const std::string& who) {
         std::vector<Fd> open;
         for (int i = 0; i < 100; ++i) open.push_back(call(port));
         for (const char letter : hello_of(who).substr(0, 50))
           for (const Fd& socket : open) say(socket, std::string(1, letter));
         return open;
       }},
      {"mutated",
       [](const NetAddress& port, const std::string& who) {
         std::vector<Fd> open;
         const std::string hello = hello_of(who);
         for (std::size_t i = 0; i < hello.size(); i += 7) {
           std::string changed = hello;
           changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
           open.push_back(call(port));
           say(open.back(), changed);
         }
         return open;
       }},
  };
  return all;
}

// Passes everything on between one caller and a port, and keeps what the caller said.
class Tap {
 public:
  explicit Tap(const NetAddress& port)
      : listener_(listen_at(address_of_device("lo"))), thread_([this, port] { run(port); }) {}
  ~Tap() {
    stop_ = true;
    thread_.join();
  }
  const NetAddress& address() const { return listener_.bound; }
  std::string heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  void run(const NetAddress& port) {
    Fd caller;
    while (!stop_ && !caller) {
      pollfd ready{listener_.socket.get(), POLLIN, 0};
      poll(&ready, 1, 10);
      caller = accept_one(listener_.socket);
    }
    const Fd far = call(port);
    while (!stop_ && caller && pass(caller, far, true) && pass(far, caller, false)) {
      pollfd ready[] = {{caller.get(), POLLIN, 0}, {far.get(), POLLIN, 0}};
      poll(ready, 2, 10);
    }
  }
  bool pass(const Fd& from, const Fd& to, bool keep) {
    std::array<char, 65536> buffer;
    const ssize_t count = recv(from.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count <= 0) return count < 0 && errno == EAGAIN;
    const std::string text(buffer.data(), num(count));
    say(to, text);
    const std::lock_guard lock(mutex_);
    if (keep) heard_ += text;
    return true;
  }

  Listener listener_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::string heard_;
  std::thread thread_;
};

inline double cpu_seconds_of_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace weft::strangers
