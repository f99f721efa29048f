// What the module weft_mpi.so gives: Open MPI's collectives on f32, between the ranks that mpirun started. Loaded only
// there; the weft program itself depends on no MPI.
#pragma once

#include <cstdint>

namespace weft::baseline {

// Counts are elements. Ranks are those of MPI_COMM_WORLD. Every call blocks until its result is there.
class Mpi {
 public:
  virtual ~Mpi() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() = 0;
  virtual void all_reduce(const float* x, float* y, std::int64_t count) = 0;
  virtual void reduce_scatter_block(const float* x, float* y, std::int64_t count) = 0;  // of each rank
  virtual void reduce_scatter(const float* x, float* y, const int* counts) = 0;
  virtual void all_gather(const float* x, float* y, std::int64_t count) = 0;                 // of each rank
  virtual void all_to_all(const float* x, float* y, std::int64_t count) = 0;                 // to each rank
  virtual void all_to_all_v(const float* x, const int* sent, float* y, const int* got) = 0;  // packed, in rank order
  virtual void broadcast(float* x, std::int64_t count, int root) = 0;
  virtual const char* version() const = 0;
  // MPI_Finalize, which waits for all ranks: called where a rank got to its good end, and nowhere else.
  virtual void finish() = 0;
};

// The one instance; initialises MPI on the first call. Null where it cannot.
using TheMpi = Mpi* (*)();
inline constexpr const char* kTheMpi = "weft_mpi";

}  // namespace weft::baseline
