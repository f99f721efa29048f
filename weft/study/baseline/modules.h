// Loads the baselines that lie beside the program as modules: oneDNN, OpenBLAS and Open MPI. Each is there or it is
// not; a benchmark says which.
#pragma once

#include <array>
#include <memory>

#include "weft/study/baseline/gemm.h"
#include "weft/study/baseline/mpi.h"

namespace weft {

enum class Library { onednn, openblas };
inline constexpr std::array kLibraries{Library::onednn, Library::openblas};
const char* to_string(Library library);  // "onednn", "openblas"

// Null where the build has no such library, or the library refuses the shape. A library is held to the instruction set
// of WEFT_ISA, unless its own variable says otherwise.
std::unique_ptr<baseline::Gemm> load_gemm(Library library, const baseline::GemmSize& size);

// Null unless mpirun started this process and the build has MPI. Always the same instance.
baseline::Mpi* load_mpi();

}  // namespace weft
