#include "weft/io/new_file.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"

namespace weft {

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  static std::atomic<unsigned> count{0};  // two threads may write the same path; the last rename stays
  aside_ = fmt::format("{}.{}.{}.part", path_, ::getpid(), count.fetch_add(1));
  file_ = std::fopen(aside_.c_str(), "wbxe");
  if (!file_) bad_input("cannot write \"{}\": {}; give a path in a folder that exists", path_, std::strerror(errno));
}

NewFile::~NewFile() {
  if (!file_) return;
  std::fclose(file_);
  ::unlink(aside_.c_str());
}

void NewFile::write(const void* data, std::size_t bytes) {
  if (bytes != 0 && std::fwrite(data, 1, bytes, file_) != bytes) refuse();
}

void NewFile::commit() {
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) refuse();
  if (std::rename(aside_.c_str(), path_.c_str()) != 0) refuse();
  std::fclose(std::exchange(file_, nullptr));
}

void NewFile::refuse() const { fail(Code::io, "cannot write \"{}\": {}", path_, std::strerror(errno)); }

}  // namespace weft
