#include "weft/cluster/find_cluster.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

class FindCluster : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("weft_find_cluster_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_ / "weft");
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    unsetenv("WEFT_CLUSTER");
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    unsetenv("WEFT_CLUSTER");
    std::filesystem::remove_all(folder_);
  }
  static void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

  std::filesystem::path folder_;
};

TEST_F(FindCluster, TheNamedFileThenTheSavedOneThenTheDefault) {
  EXPECT_EQ(find_cluster(), default_cluster());
  Cluster saved = default_cluster();
  saved.name = "saved";
  write(saved_cluster_path(), to_json(saved));
  EXPECT_EQ(find_cluster(), saved);
  Cluster named = saved;
  named.name = "named";
  write(folder_ / "named.json", to_json(named));
  setenv("WEFT_CLUSTER", (folder_ / "named.json").c_str(), 1);
  EXPECT_EQ(find_cluster(), named);
  setenv("WEFT_CLUSTER", "default", 1);
  EXPECT_EQ(find_cluster(), default_cluster());
}

TEST_F(FindCluster, AFileThatIsNoClusterIsRefusedOnlyWhereItWasAskedFor) {
  write(saved_cluster_path(), "{}");
  EXPECT_EQ(find_cluster(), default_cluster());
  setenv("WEFT_CLUSTER", saved_cluster_path().c_str(), 1);
  EXPECT_THROW(find_cluster(), Error);
}

}  // namespace
}  // namespace weft
