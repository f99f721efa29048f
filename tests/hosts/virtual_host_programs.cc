#include "tests/hosts/virtual_host_programs.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>

#include "weft/base/index.h"

namespace weft::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPort = 7077;
constexpr double kSkipped = 0.2;  // of a stream: it fills buckets and windows

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

int rank() {
  const char* text = std::getenv("OMPI_COMM_WORLD_RANK");
  return text == nullptr ? 0 : std::atoi(text);
}

sockaddr_in address_of(const char* text, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

int make_socket(int seconds) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const timeval deadline{.tv_sec = seconds, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &deadline, sizeof deadline);
  return fd;
}

int receive(const char* address, double bytes) {
  const int listener = make_socket(10);
  const sockaddr_in name = address_of(address, kPort);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 || listen(listener, 1) != 0) return 1;
  const int fd = accept(listener, nullptr, nullptr);
  std::vector<char> piece(64 << 10);
  double got = 0, skipped = 0;
  Clock::time_point begin;
  for (ssize_t size = 0; (size = recv(fd, piece.data(), piece.size(), 0)) > 0;) {
    got += static_cast<double>(size);
    if (skipped == 0 && got > kSkipped * bytes) begin = Clock::now(), skipped = got;
  }
  if (got != bytes) return 1;
  fmt::print("{{\"bytes_per_s\": {}}}\n", (got - skipped) / seconds_since(begin));
  return 0;
}

int transmit(const char* address, std::size_t bytes) {
  const sockaddr_in name = address_of(address, kPort);
  int fd = make_socket(10);
  for (const auto begin = Clock::now(); connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0;) {
    if (seconds_since(begin) > 10) return 1;
    close(fd);  // nobody listens yet
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fd = make_socket(10);
  }
  const std::vector<char> piece(64 << 10);
  for (std::size_t left = bytes; left > 0;) {
    const ssize_t sent = send(fd, piece.data(), std::min(left, piece.size()), MSG_NOSIGNAL);
    if (sent <= 0) return 1;
    left -= num(sent);
  }
  return 0;
}

int burn(double seconds) {
  const auto begin = Clock::now();
  const std::clock_t used = std::clock();
  while (seconds_since(begin) < seconds) {
  }
  const double cores = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC / seconds_since(begin);
  fmt::print("{{\"cores\": {}}}\n", cores);
  return 0;
}

int reach(const char* address) {
  const sockaddr_in name = address_of(address, kPort);
  const int outcome = connect(make_socket(1), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  fmt::print("{{\"reached\": {}}}\n", outcome == 0 || errno == ECONNREFUSED);
  return 0;
}

}  // namespace

bool is_host_program(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  return (name == "stream" && argc == 4) || ((name == "burn" || name == "reach") && argc == 3);
}

int run_host_program(char** argv) {
  const std::string name = argv[1];
  if (name == "burn") return burn(std::atof(argv[2]));
  if (name == "reach") return reach(argv[2]);
  return rank() == 0 ? receive(argv[2], std::atof(argv[3])) : transmit(argv[2], std::strtoul(argv[3], nullptr, 10));
}

}  // namespace weft::testing
