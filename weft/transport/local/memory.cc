#include "weft/transport/local/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = page_bytes();
  return std::max(page, (bytes + page - 1) / page * page);
}

std::shared_ptr<void> map(int fd, std::size_t bytes, int flags, int access = PROT_READ | PROT_WRITE) {
  const std::size_t length = whole_pages(bytes);
  void* address = mmap(nullptr, length, access, flags, fd, 0);
  if (address == MAP_FAILED) fail(Code::no_memory, "cannot map {} bytes: {}", bytes, std::strerror(errno));
  return {address, [length](void* mapped) { munmap(mapped, length); }};
}

}  // namespace

Fd make_memfd(std::size_t bytes) {
  const auto length = static_cast<off_t>(whole_pages(bytes));
  Fd memfd(memfd_create("weft", MFD_CLOEXEC));
  if (!memfd) fail(Code::no_memory, "cannot create shared memory: {}", std::strerror(errno));
  int error = ftruncate(memfd.get(), length) == 0 ? 0 : errno;
  while (error == 0) {
    error = posix_fallocate(memfd.get(), 0, length);
    if (error != EINTR) break;
    error = 0;
  }
  if (error != 0) fail(Code::no_memory, "cannot allocate {} bytes of shared memory: {}", bytes, std::strerror(error));
  return memfd;
}

std::shared_ptr<void> map_shared(const Fd& memfd, std::size_t bytes) { return map(memfd.get(), bytes, MAP_SHARED); }

std::shared_ptr<void> map_anonymous(std::size_t bytes) { return map(-1, bytes, MAP_SHARED | MAP_ANONYMOUS); }

std::shared_ptr<void> reserve(std::size_t bytes) { return map(-1, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE); }

std::shared_ptr<void> reserve_addresses(std::size_t bytes) {
  return map(-1, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, PROT_NONE);
}

void map_again(void* shared, std::size_t bytes, void* again) {
  // An old size of 0 asks for a second mapping of the same pages instead of a move. The kernel is asked itself: UCX
  // puts a mremap of its own before libc's, which knows nothing of a fixed address.
  const long at = syscall(SYS_mremap, shared, std::size_t{0}, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, again);
  if (at != static_cast<long>(reinterpret_cast<std::uintptr_t>(again)))
    fail(Code::no_memory, "cannot map {} bytes a second time: {}", bytes, std::strerror(errno));
#ifdef MADV_POPULATE_WRITE
  madvise(again, bytes, MADV_POPULATE_WRITE);  // since Linux 5.14; before, first touches do it
#endif
}

std::size_t page_bytes() { return num(sysconf(_SC_PAGESIZE)); }

std::size_t available_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    std::size_t kilobytes = 0;
    if (key == "MemAvailable:" && meminfo >> kilobytes) return kilobytes * 1024;
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::numeric_limits<std::size_t>::max();
}

}  // namespace weft
