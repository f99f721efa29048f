// Memory that ranks share, and the descriptors it travels as: memfds, which have no name and so vanish with
// the last process that holds them, however it ends.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace weft {

// Owns one file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A zeroed memfd with all its pages there already: a later touch cannot raise SIGBUS. Throws no_memory.
Fd make_memfd(std::size_t bytes);

// The file mapped for reading and writing, shared, at least one page; unmapped with the last copy.
std::shared_ptr<void> map_shared(const Fd& memfd, std::size_t bytes);

// Zeroed memory of this process alone, page-aligned. Throws no_memory.
std::shared_ptr<void> map_private(std::size_t bytes);

// What the kernel says may still be had without swapping. Asking a memfd for more does not fail: it brings
// the out-of-memory killer, so ask here first.
std::size_t available_memory_bytes();

}  // namespace weft
