// A file that appears whole or not at all: written aside under another name in the same folder, then renamed
// over its path. A reader never sees half of it, and a run that is killed leaves what was there before.
#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

namespace weft {

class NewFile {
 public:
  explicit NewFile(std::string path);  // throws bad_input where the folder cannot be written
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // without commit(), what was written is removed

  void write(const void* data, std::size_t bytes);  // throws io, e.g. on a full disk
  void commit();                                    // flushes to the disk and renames; throws io

 private:
  [[noreturn]] void refuse() const;

  std::string path_;
  std::string aside_;
  std::FILE* file_ = nullptr;
};

}  // namespace weft
