// One program twice, five lines apart: a product on every rank, its sum over the ranks shared out by rows.
//   09_plain_mpi    as people write it: a BLAS writes the product, then MPI sums and scatters it
//   10_window_mpi   the same BLAS writes it through a window straight to the owners of the rows, which sum it
//
//   mpirun -n 4 10_window_mpi
#include <cblas.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr int kM = 1024, kN = 512, kK = 64, kRuns = 5;

// Small whole numbers: every sum is exact, whatever its order, so both programs must find the same.
float x_at(int rank, int run, int i) { return static_cast<float>((3 * i + 5 * run + rank) % 7 - 3); }
float w_at(int rank, int run, int i) { return static_cast<float>((2 * i + run + 3 * rank) % 5 - 2); }

// What an element of the sum over all ranks must be.
float expected(int ranks, int run, int row, int col) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank)
    for (int p = 0; p < kK; ++p) sum += x_at(rank, run, row * kK + p) * w_at(rank, run, p * kN + col);
  return sum;
}

// A digest of this rank's rows; wrong ones end the program.
std::uint64_t digest(const float* mine, int rank, int ranks, int run) {
  const int rows = kM / ranks;
  std::uint64_t hash = 1;
  for (int i = 0; i < rows * kN; ++i) {
    if (i % 997 == 0 && mine[i] != expected(ranks, run, rank * rows + i / kN, i % kN)) {
      std::fprintf(stderr, "rank %d: wrong at row %d, column %d\n", rank, i / kN, i % kN);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    hash = (hash ^ static_cast<std::uint64_t>(static_cast<std::int64_t>(mine[i]))) * 1099511628211u;
  }
  return hash;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<float> x(kM * kK), w(kK * kN);
  std::vector<float> product(kM * kN);
  std::vector<float> mine(kM / ranks * kN);
  std::uint64_t hash = 0, all = 0;
  for (int run = 0; run < kRuns; ++run) {
    for (int i = 0; i < kM * kK; ++i) x[i] = x_at(rank, run, i);
    for (int i = 0; i < kK * kN; ++i) w[i] = w_at(rank, run, i);
    float* c = product.data();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kM, kN, kK, 1, x.data(), kK, w.data(), kN, 0, c, kN);
    MPI_Reduce_scatter_block(c, mine.data(), kM / ranks * kN, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    hash = hash * 31 + digest(mine.data(), rank, ranks, run);
  }
  MPI_Reduce(&hash, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf("ok %d ranks, %d runs, digest %016llx\n", ranks, kRuns, static_cast<unsigned long long>(all));
  MPI_Finalize();
  return 0;
}
