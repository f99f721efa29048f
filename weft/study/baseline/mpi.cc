// The module weft_mpi.so: the collectives that a careful user of Open MPI would call.
#include "weft/study/baseline/mpi.h"

#include <mpi.h>

#include <vector>

#include "weft/base/index.h"

namespace weft::baseline {
namespace {

class OpenMpi : public Mpi {
 public:
  OpenMpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    int length = 0;
    MPI_Get_library_version(version_, &length);
    for (char& c : version_)
      if (c == ',') c = '\0';  // "Open MPI v4.1.4"
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  void all_reduce(const float* x, float* y, std::int64_t count) override {
    MPI_Allreduce(x, y, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void reduce_scatter_block(const float* x, float* y, std::int64_t count) override {
    MPI_Reduce_scatter_block(x, y, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void reduce_scatter(const float* x, float* y, const int* counts) override {
    MPI_Reduce_scatter(x, y, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void all_gather(const float* x, float* y, std::int64_t count) override {
    MPI_Allgather(x, static_cast<int>(count), MPI_FLOAT, y, static_cast<int>(count), MPI_FLOAT, MPI_COMM_WORLD);
  }
  void all_to_all(const float* x, float* y, std::int64_t count) override {
    MPI_Alltoall(x, static_cast<int>(count), MPI_FLOAT, y, static_cast<int>(count), MPI_FLOAT, MPI_COMM_WORLD);
  }
  void all_to_all_v(const float* x, const int* sent, float* y, const int* got) override {
    std::vector<int> from(num(size_)), to(num(size_));
    for (int r = 1; r < size_; ++r) {
      from[r] = from[r - 1] + sent[r - 1];
      to[r] = to[r - 1] + got[r - 1];
    }
    MPI_Alltoallv(x, sent, from.data(), MPI_FLOAT, y, got, to.data(), MPI_FLOAT, MPI_COMM_WORLD);
  }
  void broadcast(float* x, std::int64_t count, int root) override {
    MPI_Bcast(x, static_cast<int>(count), MPI_FLOAT, root, MPI_COMM_WORLD);
  }
  const char* version() const override { return version_; }
  void finish() override { MPI_Finalize(); }

 private:
  int rank_ = 0, size_ = 1;
  char version_[MPI_MAX_LIBRARY_VERSION_STRING] = "";
};

}  // namespace
}  // namespace weft::baseline

extern "C" weft::baseline::Mpi* weft_mpi() {
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return nullptr;
  static weft::baseline::OpenMpi mpi;
  return &mpi;
}
