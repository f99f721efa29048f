#include "weft/world/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/os/new_file.h"

namespace weft {
namespace {

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::mutex lost_guard;
std::string lost;  // the first that was

}  // namespace

void check_trace(const std::string& path) {
  if (is_written_in_place(path))
    bad_input("the trace \"{}\" is no plain file, and every rank writes a part beside it; name a plain file", path);
}

TraceFile::TraceFile(std::string path, int rank, int num_ranks)
    : path_(std::move(path)), rank_(rank), num_ranks_(num_ranks) {
  check_trace(path_);
  std::remove(part(rank).c_str());
  if (rank == 0) std::remove(lock().c_str());
  check_writable(part(rank));
  text_.name_process(rank, fmt::format("rank {}", rank), rank);
  text_.name_process(TraceText::kLinks, "links", TraceText::kLinks);
}

std::string TraceFile::part(int rank) const { return fmt::format("{}.{}", path_, rank); }
std::string TraceFile::lock() const { return path_ + ".join"; }

void TraceFile::finish() noexcept {
  try {
    try {
      write_file(part(rank_), text_.events());
    } catch (const Error&) {
      write_file(part(rank_), "");  // an empty part, which fits on a full disk: whoever joins drops them all
      join();
      throw;
    }
    join();
  } catch (const std::exception& error) {
    const std::lock_guard held(lost_guard);
    if (lost.empty()) lost = error.what();
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
  const auto unlock = [&] { std::remove(lock().c_str()); };
  try {
    if (all_there()) join_parts();  // else another rank has joined them between the look and the lock
  } catch (...) {
    unlock();
    throw;
  }
  unlock();
}

void TraceFile::join_parts() const {
  std::vector<std::string> parts;
  for (int rank = 0; rank < num_ranks_; ++rank) parts.push_back(read_whole(part(rank)));
  for (int rank = 0; rank < num_ranks_; ++rank) std::remove(part(rank).c_str());
  const bool whole = std::none_of(parts.begin(), parts.end(), [](const std::string& text) { return text.empty(); });
  if (whole) write_file(path_, TraceText::file(parts));
}

std::string lost_trace() {
  const std::lock_guard held(lost_guard);
  return lost;
}

}  // namespace weft
