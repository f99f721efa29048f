#include "weft/study/device/cublaslt.h"

#include <dlfcn.h>

#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

// As in cublasLt.h of CUDA 13.
constexpr int kR32f = 0, kR16bf = 14, kCompute32f = 68, kTransposed = 1;
constexpr int kTransA = 3, kMaxWorkspace = 1;
constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
struct Algorithm {
  std::uint64_t data[8];
};
struct Proposal {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

struct LtLibrary {
  void* handle = nullptr;
  int (*create)(void**) = nullptr;
  int (*desc)(void**, int, int) = nullptr;
  int (*set)(void*, int, const void*, std::size_t) = nullptr;
  int (*layout)(void**, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*preference)(void**) = nullptr;
  int (*prefer)(void*, int, const void*, std::size_t) = nullptr;
  int (*propose)(void*, void*, void*, void*, void*, void*, void*, int, Proposal*, int*) = nullptr;
  int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                void*, void*, const Algorithm*, void*, std::size_t, void*) = nullptr;

  LtLibrary() {
    void* lib = dlopen("libcublasLt.so.13", RTLD_NOW);
    if (lib == nullptr) return;
    const auto find = [&](auto& f, const char* name) {
      f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(lib, name));
    };
    find(create, "cublasLtCreate");
    find(desc, "cublasLtMatmulDescCreate");
    find(set, "cublasLtMatmulDescSetAttribute");
    find(layout, "cublasLtMatrixLayoutCreate");
    find(preference, "cublasLtMatmulPreferenceCreate");
    find(prefer, "cublasLtMatmulPreferenceSetAttribute");
    find(propose, "cublasLtMatmulAlgoGetHeuristic");
    find(matmul, "cublasLtMatmul");
    if (matmul != nullptr) create(&handle);
  }
};

LtLibrary& library() {
  static LtLibrary loaded;
  return loaded;
}

void check_lt(int status, const char* what) {
  if (status != 0) fail(Code::internal, "cuBLASLt could not {}: status {}", what, status);
}

}  // namespace

struct CublasLtGemm::Impl {
  void *desc = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
  std::vector<Proposal> proposals;
  std::size_t best = 0;
  DeviceMemory workspace{static_cast<std::int64_t>(kWorkspaceBytes)};

  int run(const void* x, const void* w, void* y, std::size_t which, void* queue = device_queue()) {
    const float one = 1, zero = 0;
    return library().matmul(library().handle, desc, &one, w, a, x, b, &zero, y, c, y, c, &proposals[which].algorithm,
                            workspace.data(), kWorkspaceBytes, queue);
  }
};

bool CublasLtGemm::is_installed() { return library().handle != nullptr; }

// Its matrices are column-major: what it makes is y transposed, w times x.
CublasLtGemm::CublasLtGemm(std::int64_t m, std::int64_t n, std::int64_t k, WeightLayout layout)
    : impl_(std::make_unique<Impl>()) {
  LtLibrary& lt = library();
  const bool nk = layout == WeightLayout::nk;
  const auto un = static_cast<std::uint64_t>(n), um = static_cast<std::uint64_t>(m), uk = static_cast<std::uint64_t>(k);
  check_lt(lt.desc(&impl_->desc, kCompute32f, kR32f), "describe a product");
  if (nk) check_lt(lt.set(impl_->desc, kTransA, &kTransposed, sizeof kTransposed), "transpose w");
  check_lt(lt.layout(&impl_->a, kR16bf, nk ? uk : un, nk ? un : uk, nk ? k : n), "describe w");
  check_lt(lt.layout(&impl_->b, kR16bf, uk, um, k), "describe x");
  check_lt(lt.layout(&impl_->c, kR16bf, un, um, n), "describe y");
  void* preference = nullptr;
  check_lt(lt.preference(&preference), "make a preference");
  check_lt(lt.prefer(preference, kMaxWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes), "take a workspace");
  impl_->proposals.resize(16);
  int found = 0;
  check_lt(lt.propose(lt.handle, impl_->desc, impl_->a, impl_->b, impl_->c, impl_->c, preference, 16,
                      impl_->proposals.data(), &found),
           "propose an algorithm");
  impl_->proposals.resize(static_cast<std::size_t>(found));
}

CublasLtGemm::~CublasLtGemm() = default;

int CublasLtGemm::tune(const void* x, const void* w, void* y) {
  double least = 1e30;
  int ran = 0;
  DeviceTimer timer;
  for (std::size_t i = 0; i < impl_->proposals.size(); ++i) {
    if (impl_->run(x, w, y, i) != 0) continue;
    ++ran;
    timer.begin();
    for (int rep = 0; rep < 5; ++rep) impl_->run(x, w, y, i);
    if (const double us = timer.end_us(); us < least) least = us, impl_->best = i;
  }
  return ran;
}

void CublasLtGemm::run(const void* x, const void* w, void* y, void* queue) {
  check_lt(impl_->run(x, w, y, impl_->best, queue), "multiply");
}

}  // namespace weft
