// One timeline file of all ranks. Every rank writes its part, FILE.RANK, when its world ends; whoever finds all parts
// there joins them into FILE. So ranks may end in any order, and none waits for another.
#pragma once

#include <string>

#include "weft/base/trace.h"

namespace weft {

// Throws bad_input where no timeline can be written. Whoever starts ranks asks before: of ranks that find out by
// themselves one may end before another has said why.
void check_trace(const std::string& path);

class TraceFile {
 public:
  // Removes what an earlier run may have left; all ranks have to be done with that before one finishes. Throws
  // bad_input where the file cannot be written, or is none: parts cannot lie beside a device or a pipe.
  TraceFile(std::string path, int rank, int num_ranks);

  TraceText& text() { return text_; }
  // Writes the part, and joins all where they are there. Worlds end in destructors: what could not be written is
  // told by lost_trace() alone, and no part is left.
  void finish() noexcept;

 private:
  std::string part(int rank) const;
  std::string lock() const;  // a file that is there while a rank joins the parts
  bool all_there() const;
  void join() const;
  void join_parts() const;

  std::string path_;
  int rank_, num_ranks_;
  TraceText text_;
};

// Why a world that has ended in this process could not write its timeline; empty: none failed.
std::string lost_trace();

}  // namespace weft
