// The one way to write a file. A plain file appears whole or not at all: it is written aside in the same folder, then
// renamed over its path, so that a reader never sees half of it and a run that is killed leaves what was there before.
// Links are followed: their target is replaced, with its permissions kept. Whatever else a path names (a device, a
// pipe, /dev/stdout) is written to as it is; a folder is refused.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "weft/base/os/fd.h"

namespace weft {

class NewFile {
 public:
  // Throws bad_input where the path cannot be written, io where the disk is full. `mode`: of the new file; none: that
  // of the file it replaces, or what the umask allows.
  explicit NewFile(std::string path, std::optional<mode_t> mode = {});
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // without commit(), what was written aside is removed

  void write(const void* data, std::size_t bytes);  // throws io, e.g. on a full disk
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();  // flushes to the disk and renames; throws io

 private:
  void open_aside(std::optional<mode_t> mode);
  [[noreturn]] void refuse() const;

  std::string path_;    // as given, for messages
  std::string target_;  // where links lead
  std::string aside_;   // empty: written in place, or committed
  Fd file_;
};

// The whole of it. Throws as NewFile does.
void write_file(const std::string& path, std::string_view text, std::optional<mode_t> mode = {});

// Before a long run: throws as NewFile would. Leaves nothing, and opens no pipe.
void check_writable(const std::string& path);

// Whether the path names a device, a pipe or a descriptor, which is written to in place and not replaced.
bool is_written_in_place(const std::string& path);

}  // namespace weft
