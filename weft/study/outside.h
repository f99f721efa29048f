// The contestants from outside: the products of libraries and Open MPI's collectives, put into the words of a contest.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/study/baseline/modules.h"
#include "weft/study/input/inputs.h"
#include "weft/study/panels.h"

namespace weft {

// Makes gemms by a library, on one of these weights at a time. One product of a size serves all that ask for it, each
// with an output of its own. Gives an empty Make where the library is not there or the producer is no gemm in f32.
MakerOf library_maker(Library library, const std::vector<const float*>& weights, int threads);

// A call of MPI that does the work of a collective: from this rank's input to its output, where it lies until the
// next call.
struct MpiCall {
  std::string name;
  std::function<const float*(const float*)> run;
};
// The calls worth trying for a collective (a copy into a space); none where counts are beyond what MPI takes.
std::vector<MpiCall> mpi_calls(baseline::Mpi& mpi, const OpSpec& collective);

}  // namespace weft
