// Loads the baselines that lie beside the program as modules: oneDNN and Open MPI. Each is there or it is not; a
// benchmark says which.
#pragma once

#include <memory>

#include "weft/study/baseline/gemm.h"
#include "weft/study/baseline/mpi.h"

namespace weft {

// Null where the build has no oneDNN, or oneDNN refuses the shape.
std::unique_ptr<baseline::Gemm> load_gemm(const baseline::GemmSize& size);
bool has_onednn();

// Null unless mpirun started this process and the build has MPI. Always the same instance.
baseline::Mpi* load_mpi();

}  // namespace weft
