// Spoiled data files of every kind: taken or refused in a sentence, never a crash or all of memory.
#include <gtest/gtest.h>

#include "weft/base/json.h"
#include "weft/cluster/data_file.h"
#include "weft/cluster/topology.h"
#include "weft/cluster/workload.h"
#include "weft/io/fuzz_test.h"

namespace weft {
namespace {

// So many mutants of every file of a folder, or of those that are small where larger ones take long.
template <typename Parse>
FuzzCounts mutants_of(const char* folder, int mutants, const Parse& parse, std::size_t most_bytes = 1 << 14) {
  FuzzCounts all;
  for (const std::string& name : data_file_names(folder)) {
    const std::string text = read_text_file(find_data_file(folder, "file", name), kMaxDataFileBytes);
    if (text.size() > most_bytes) continue;
    SCOPED_TRACE(name);
    const FuzzCounts counts = fuzz(text, mutants, parse, 7);
    all.taken += counts.taken, all.refused += counts.refused;
  }
  return all;
}

void expect_both(const FuzzCounts& counts) {
  EXPECT_GT(counts.refused, 50);
  EXPECT_GT(counts.taken, 5) << "some changes fall on notes";
}

TEST(DataMutants, OfWorkloads) {
  expect_both(mutants_of("workloads", 300, [](const std::string& text) { parse_workload(text, "w.json"); }));
}

TEST(DataMutants, OfNetworks) {
  expect_both(mutants_of("clusters/networks", 500, [](const std::string& text) { parse_network(text, "n.json"); }));
}

TEST(DataMutants, OfTopologies) {
  expect_both(mutants_of("clusters/topologies", 40, [](const std::string& text) { parse_topology(text, "t.json"); }));
}

TEST(DataMutants, OfClusters) {
  const std::string text = to_json(default_cluster(4));
  const FuzzCounts counts = fuzz(text, 2000, [](const std::string& mutant) { parse_cluster(mutant, "c.json"); });
  expect_both(counts);
}

}  // namespace
}  // namespace weft
