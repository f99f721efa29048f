// What the tests of the CUDA executor on a GPU share: where there is none, every test is skipped, by name.
#pragma once

#include <cmath>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/executor.h"
#include "weft/exec/cuda/plans_test.h"
#include "weft/world/world.h"

namespace weft::testing_cuda {

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!device_facts()) GTEST_SKIP() << "there is no GPU here";
  }
};

// A virtual GPU (tests/virtual_gpu) is slow, and its time means nothing: fewer runs there, and no latest time.
inline bool is_virtual() { return device_facts()->name.find("virtual") != std::string::npos; }
inline int times(int on_gpu, int on_virtual) { return is_virtual() ? on_virtual : on_gpu; }
inline double latest(double us) { return is_virtual() ? INFINITY : us; }

// A rank's sum of k products is about sqrt(k) / 3 and travels rounded to 2^-9 of that; those of all ranks may cancel.
// In f32 only the order within a product differs.
inline double tolerance(const CudaCase& c) {
  if (c.sums == Dtype::f32) return c.k == 0 ? 0 : 1e-4;
  return 0.02 + 0.002 * std::sqrt(static_cast<double>(c.k));
}

inline Group everybody(const World& world) {
  Group out;
  for (int r = 0; r < world.size(); ++r) out.ranks.push_back(r);
  out.position = world.rank();
  return out;
}

// Operands of all ranks on the device.
struct OnDevice {
  std::vector<DeviceMemory> memory;
  std::vector<CudaOperands> operands;

  explicit OnDevice(const std::vector<Operands>& from) {
    for (const Operands& o : from) {
      const void *x = o.wide_x.empty() ? kept(o.x) : kept(o.wide_x), *w = kept(o.w);
      const void *bias = kept(o.bias, o.bias_type), *residual = kept(o.residual, o.residual_type);
      operands.push_back({x, w, bias, residual, nullptr, o.bias_type, o.residual_type});
    }
  }

 private:
  template <typename T>
  const void* kept(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    memory.push_back(on_device(values));
    return memory.back().data();
  }
  const void* kept(const std::vector<float>& values, Dtype type) {
    if (type == Dtype::f32) return kept(values);
    std::vector<bf16> narrow;
    for (const float value : values) narrow.push_back(to_bf16(value));
    return kept(narrow);
  }
};

inline std::vector<Operands> all_operands(const CudaCase& c, std::uint64_t seed) {
  std::vector<Operands> out;
  for (int r = 0; r < c.ranks; ++r) out.push_back(operands_of(c, r, seed));
  return out;
}

// Largest |a - b| / (1 + |b|) of a rank's output.
inline double error_of(const std::byte* output, const std::vector<float>& expected, Dtype type = Dtype::bf16) {
  std::vector<float> found;
  if (type == Dtype::f32)
    found = from_device<float>(output, expected.size());
  else
    for (const bf16 value : from_device<bf16>(output, expected.size())) found.push_back(to_float(value));
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = std::abs(found[i] - expected[i]) / (1 + std::abs(expected[i]));
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst;
}

inline double error_of(const CudaExecutor& executor, int rank, const std::vector<float>& expected) {
  return error_of(executor.output(rank), expected, executor.tables().sums);
}

// Three runs with fresh inputs.
inline void run_case(const CudaCase& c, const CudaOptions& options = {}) {
  const Plan plan = plan_of(c);
  const Expander expander(plan);
  CudaExecutor executor(plan, options);
  for (const std::uint32_t run : {1, 2, 3}) {
    const auto operands = all_operands(c, run);
    const auto expected = reference_of(plan, operands);
    const OnDevice there(operands);
    executor.start(there.operands);
    executor.finish();
    for (int r = 0; r < c.ranks; ++r) {
      ASSERT_LE(error_of(executor, r, expected[at(r)]), tolerance(c)) << c.name << " rank " << r << " run " << run;
      const auto counters = executor.counters(r);
      for (const std::uint32_t i : signalled(executor.tables(), r)) {
        if (options.link == CudaLink::pcie) break;  // some of them have become crossings
        ASSERT_EQ(counters[i], run * expander.counter_total(static_cast<int>(i), r)) << c.name << " counter " << i;
      }
      for (const Crossing& crossing : executor.tables().crossings) {
        if (crossing.to != r) continue;
        ASSERT_EQ(counters[crossing.arrived], run) << c.name;
      }
    }
  }
}

// That `run` fails by its deadline, in a sentence of this form.
inline void expect_deadline(const std::function<void()>& run, const std::string& sentence) {
  try {
    run();
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline);
    EXPECT_TRUE(std::regex_match(error.what(), std::regex(sentence))) << error.what();
  }
}

}  // namespace weft::testing_cuda
