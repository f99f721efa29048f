// A file mapped to be read. Nothing is read until it is touched, and ranks of one host that map the same
// file share its pages. The file must not shrink while it is mapped: a touch beyond its end is a SIGBUS.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace weft {

class MappedFile {
 public:
  // Throws bad_input, naming the path, where it is not a plain file that can be opened.
  static MappedFile open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft
