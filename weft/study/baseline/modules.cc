#include "weft/study/baseline/modules.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

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

baseline::MakeGemm gemm_maker() {
  static const auto make = [] {
    setenv("OMP_WAIT_POLICY", "passive", 0);  // its idle threads would take the cores from the ranks
    setenv("OMP_PROC_BIND", "false", 1);      // oneDNN asks for proc_bind(close): all ranks would be pinned to core 0
    return find<baseline::MakeGemm>("weft_dnnl.so", baseline::kMakeGemm);
  }();
  return make;
}

}  // namespace

bool has_onednn() { return gemm_maker() != nullptr; }

std::unique_ptr<baseline::Gemm> load_gemm(const baseline::GemmSize& size) {
  const auto make = gemm_maker();
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
