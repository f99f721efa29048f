#include "weft/world/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Under another name first: whoever finds a file finds all of it.
bool write_whole(const std::string& path, const std::string& text) {
  const std::string begun = path + ".tmp";
  std::ofstream file(begun, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return !file.fail() && std::rename(begun.c_str(), path.c_str()) == 0;
}

}  // namespace

TraceFile::TraceFile(std::string path, int rank, int num_ranks)
    : path_(std::move(path)), rank_(rank), num_ranks_(num_ranks) {
  std::remove(part(rank).c_str());
  if (rank == 0) std::remove(lock().c_str());
  if (!write_whole(part(rank) + ".try", ""))
    bad_input("cannot write the trace \"{}\": {}; give a file in a folder that is there", path_, std::strerror(errno));
  std::remove((part(rank) + ".try").c_str());
  text_.name_process(rank, fmt::format("rank {}", rank), rank);
  text_.name_process(TraceText::kLinks, "links", TraceText::kLinks);
}

std::string TraceFile::part(int rank) const { return fmt::format("{}.{}", path_, rank); }
std::string TraceFile::lock() const { return path_ + ".join"; }

void TraceFile::finish() noexcept {
  try {
    if (write_whole(part(rank_), text_.events())) join();
  } catch (...) {  // a world that ends cannot complain
  }
}

bool TraceFile::all_there() const {
  for (int rank = 0; rank < num_ranks_; ++rank)
    if (access(part(rank).c_str(), R_OK) != 0) return false;
  return true;
}

void TraceFile::join() const {
  if (!all_there()) return;
  const int fd = open(lock().c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return;  // another rank is at it
  close(fd);
  if (all_there()) {  // else another rank has joined them between the look and the lock
    std::vector<std::string> parts;
    for (int rank = 0; rank < num_ranks_; ++rank) parts.push_back(read_whole(part(rank)));
    write_whole(path_, TraceText::file(parts));
    for (int rank = 0; rank < num_ranks_; ++rank) std::remove(part(rank).c_str());
  }
  std::remove(lock().c_str());
}

}  // namespace weft
