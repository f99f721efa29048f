#include "weft/exec/cuda/small/gemv_table.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/plans_test.h"
#include "weft/kernel/reference.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;
using testing_cuda::gemv_case;
using testing_cuda::Operands;

// The tables walked on the host: every rank makes its tiles and stores them with the number of the run; then everybody
// adds what has that number.
class HostGemv {
 public:
  explicit HostGemv(const GemvPlan& plan) : plan_(plan), words_(plan.tables.size()) {
    for (auto& words : words_) words.resize(num(2 * plan.inbox_elements), {0, 0});
  }

  std::vector<std::vector<float>> run(const std::vector<Operands>& operands) {
    ++run_;
    for (int r = 0; r < int_size(plan_.tables); ++r) send(r, operands[at(r)]);
    std::vector<std::vector<float>> out;
    for (int r = 0; r < int_size(plan_.tables); ++r) out.push_back(sums(r));
    return out;
  }

 private:
  struct Word {
    float value;
    int run;
  };
  std::int64_t half() const { return run_ % 2 * plan_.inbox_elements; }

  void send(int rank, const Operands& in) {
    const int m = plan_.rows, n = plan_.cols, k = plan_.depth;
    std::vector<float> made(num(m * n));
    std::vector<bf16> turned;  // w as (k, n)
    for (std::int64_t i = 0; i < std::int64_t{k} * n; ++i) turned.push_back(in.w[at(i % n * k + i / n)]);
    if (plan_.multiplies())
      gemm_naive(m, n, k, {in.x.data(), k, Dtype::bf16}, {turned.data(), n, Dtype::bf16}, made.data(), n);
    for (std::size_t i = 0; !plan_.multiplies() && i < made.size(); ++i) made[i] = to_float(in.x[i]);
    for (int t = 0; t < plan_.tiles; ++t)
      for (int i = 0; i < plan_.num_targets; ++i) {
        const GemvTarget& to = plan_.tables[at(rank)].targets[at(t * plan_.num_targets + i)];
        for (int e = 0; e < m * kGemvCols; ++e) {
          const float value = made[at(e / kGemvCols * n + t * kGemvCols + e % kGemvCols)];
          words_[at(to.rank)][at(half() + to.element + e)] = {to_float(to_bf16(value)), run_};
        }
      }
  }

  std::vector<float> sums(int rank) const {
    std::vector<float> out(num(plan_.rows * plan_.cols));
    for (int t = 0; t < plan_.tiles; ++t)
      for (int e = 0; e < plan_.rows * kGemvCols; ++e) {
        const int row = e / kGemvCols, col = e % kGemvCols;
        float sum = 0;
        for (int j = 0; j < plan_.num_sources; ++j) {
          const int from = plan_.tables[at(rank)].sources[at((t * plan_.rows + row) * plan_.num_sources + j)];
          const Word& word = words_[at(rank)][at(half() + from + col)];
          EXPECT_EQ(word.run, run_);
          sum = j == 0 ? word.value : sum + word.value;
        }
        out[at(row * plan_.cols + t * kGemvCols + col)] = to_float(to_bf16(sum));
      }
    return out;
  }

  const GemvPlan& plan_;
  std::vector<std::vector<Word>> words_;
  int run_ = 0;
};

TEST(GemvTable, AgreesWithRefBitForBitRunAfterRun) {
  for (const std::int64_t rows : {1, 2, 3, 4, 7, 16})
    for (const int ranks : {2, 3, 4, 8})
      for (const std::int64_t k : {32, 96, 0}) {
        const CudaCase c = gemv_case(rows, 80, k, ranks);
        const Plan plan = testing_cuda::plan_of(c);
        ASSERT_TRUE(verify(plan).ok());
        const GemvPlan gemv = gemv_plan(plan, Expander(plan));
        EXPECT_EQ(gemv.num_targets, ranks);
        EXPECT_EQ(gemv.num_sources, ranks);
        HostGemv twin(gemv);
        for (const std::uint64_t run : {1, 2, 3}) {
          std::vector<Operands> operands;
          for (int r = 0; r < ranks; ++r) operands.push_back(testing_cuda::operands_of(c, r, run));
          EXPECT_EQ(twin.run(operands), testing_cuda::reference_of(plan, operands))
              << rows << " rows, " << ranks << " ranks, k " << k;
        }
      }
}

TEST(GemvTable, KeepsWhatIsKept) {
  const Plan plan = testing_cuda::plan_of(gemv_case(4, 64, 32, 1));
  const GemvPlan gemv = gemv_plan(plan, Expander(plan));
  EXPECT_TRUE(gemv.keeps());
  EXPECT_TRUE(gemv.multiplies());
  EXPECT_EQ(gemv.tiles, 4);
}

std::string gemv_refusal(const CudaCase& c) {
  const Plan plan = testing_cuda::plan_of(c);
  return refusal([&] { gemv_plan(plan, Expander(plan)); });
}

TEST(GemvTable, RefusesOtherPlansAndSaysWhatToDo) {
  EXPECT_EQ(gemv_refusal(gemv_case(17, 64, 32, 2)), "m is 17; a gemv on a GPU has at most 16 rows: use a gemm");
  EXPECT_EQ(gemv_refusal(gemv_case(1, 72, 32, 2)), "n is 72 and k is 32; a gemv on a GPU takes multiples of 16 and 32");
  CudaCase c = gemv_case(8, 64, 32, 2);
  c.tile = {4, 16};
  EXPECT_EQ(gemv_refusal(c), "tiles are 4 x 16; those of a gemv on a GPU have all 8 rows and 16 columns");
  for (const Route route : {Route::ring, Route::two_shot}) {
    c = gemv_case(8, 64, 32, 2), c.route = route;
    const Plan plan = testing_cuda::plan_of(c);
    EXPECT_EQ(gemv_refusal(c), "plan \"" + plan.name +
                                   "\" is neither kept nor all_reduced by one_shot; a gemv on a GPU is, use a gemm "
                                   "for others");
  }
  c = gemv_case(8, 64, 32, 2), c.bias = true;
  EXPECT_NE(gemv_refusal(c).find("has an epilogue or an addend"), std::string::npos);
}

TEST(GemvTable, ALostTileBecomesASentence) {
  const Plan plan = testing_cuda::plan_of(gemv_case(4, 96, 32, 4));
  DeviceFailure failure;
  failure.rank = 3, failure.index = 5, failure.wait = 0, failure.started = 7;
  failure.waited_ns = 10'000'000'000;
  EXPECT_EQ(describe_gemv(gemv_plan(plan, Expander(plan)), failure),
            "rank 3 waited 10.0 s for tile 5 [0:4, 80:96] of rank 1 in run 7");
}

}  // namespace
}  // namespace weft
