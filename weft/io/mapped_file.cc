#include "weft/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a pipe with no writer would otherwise hold us here before we see what it is.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) bad_input("cannot open \"{}\": {}; give the path of a readable file", path, std::strerror(errno));
  struct stat status;
  if (::fstat(file.fd, &status) != 0) fail(Code::io, "cannot look at \"{}\": {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) bad_input("\"{}\" is not a plain file; give the path of a file", path);
  MappedFile mapped;
  mapped.size_ = num(status.st_size);
  if (mapped.size_ == 0) return mapped;  // mmap refuses length 0
  void* data = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) {
    mapped.size_ = 0;
    fail(Code::io, "cannot map \"{}\" ({} bytes): {}", path, status.st_size, std::strerror(errno));
  }
  mapped.data_ = static_cast<const std::byte*>(data);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace weft
