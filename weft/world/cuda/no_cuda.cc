// Where the build has no CUDA (cuda_op.cc and compile_cuda.cc where it has): there are no such ops.
#include "weft/base/error.h"
#include "weft/world/cuda/cuda_op.h"
#include "weft/world/world.h"

namespace weft {

namespace {

[[noreturn]] void refuse() {
  bad_input("this build has no CUDA executor (nvcc 13 there, configure with -D WEFT_CUDA=ON); compile for the CPU");
}

}  // namespace

CudaOp::CudaOp(std::shared_ptr<State>) {}
CudaOp::CudaOp(CudaOp&&) noexcept = default;
CudaOp& CudaOp::operator=(CudaOp&&) noexcept = default;
CudaOp::~CudaOp() = default;
void CudaOp::run(const CudaOperands&, void*) { refuse(); }
void CudaOp::run(const BagOperands&, void*) { refuse(); }
void CudaOp::copy_output(void*, void*) { refuse(); }
void CudaOp::copy_output(void*, std::int64_t, std::int64_t, void*) { refuse(); }
void CudaOp::copy(void*, const void*, std::int64_t, void*) { refuse(); }
void CudaOp::limit(const Counts&) { refuse(); }
std::int32_t* CudaOp::counts() { refuse(); }
bool CudaOp::was_recorded() const { refuse(); }
const void* CudaOp::output() const { refuse(); }
std::int64_t CudaOp::output_bytes() const { refuse(); }
bool CudaOp::own_output() const { refuse(); }
void CudaOp::finish() { refuse(); }
const Plan& CudaOp::plan() const { refuse(); }
std::size_t CudaOp::bytes() const { refuse(); }

CudaOp World::compile_cuda(const Producer&, const Space&, const CudaOpOptions&) { refuse(); }
CudaOp World::compile_cuda(const Space&, const Producer&, const CudaOpOptions&) { refuse(); }
CudaOp World::compile_cuda(const Plan&, const Group&, const CudaOpOptions&) { refuse(); }

}  // namespace weft
