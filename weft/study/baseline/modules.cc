#include "weft/study/baseline/modules.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "weft/kernel/isa.h"
#include "weft/transport/join/mpirun.h"

namespace weft {
namespace {

// Beside the program, or where `make install` puts it. The handle is never closed: oneDNN and MPI keep threads and
// exit handlers.
void* open_module(const char* name) {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  if (none) return nullptr;
  const auto folder = program.parent_path();
  for (const auto& path : {folder / name, folder.parent_path() / WEFT_MODULE_DIR / name})
    if (std::filesystem::exists(path, none)) return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  return nullptr;
}

template <typename Function>
Function find(const char* module, const char* symbol) {
  void* handle = open_module(module);
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, symbol));
}

// Libraries choose their code by the processor, when they are loaded.
void hold_to_isa() {
  if (best_isa() == machine_isa()) return;
  const bool avx2 = best_isa() == Isa::avx2;
  setenv("ONEDNN_MAX_CPU_ISA", avx2 ? "AVX2" : "SSE41", 0);
  setenv("OPENBLAS_CORETYPE", avx2 ? "Haswell" : "Nehalem", 0);
}

baseline::MakeGemm gemm_maker(const char* module) {
  hold_to_isa();
  setenv("OMP_WAIT_POLICY", "passive", 0);  // its idle threads would take the cores from the ranks
  setenv("OMP_PROC_BIND", "false", 1);      // oneDNN asks for proc_bind(close): all ranks would be pinned to core 0
  return find<baseline::MakeGemm>(module, baseline::kMakeGemm);
}

}  // namespace

const char* to_string(Library library) { return library == Library::onednn ? "onednn" : "openblas"; }

std::unique_ptr<baseline::Gemm> load_gemm(Library library, const baseline::GemmSize& size) {
  static const baseline::MakeGemm onednn = gemm_maker("weft_dnnl.so"), openblas = gemm_maker("weft_blas.so");
  const auto make = library == Library::onednn ? onednn : openblas;
  char error[200] = "";
  return std::unique_ptr<baseline::Gemm>(make == nullptr ? nullptr : make(size, error));
}

baseline::Mpi* load_mpi() {
  static baseline::Mpi* const mpi = [] {
    const auto get = under_mpirun() ? find<baseline::TheMpi>("weft_mpi.so", baseline::kTheMpi) : nullptr;
    return get == nullptr ? nullptr : get();
  }();
  return mpi;
}

}  // namespace weft
