#include "weft/cluster/cluster.h"

#include <filesystem>
#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

// The default cluster's file with one field changed, at a JSON pointer.
std::string with(const std::string& pointer, const nlohmann::json& value) {
  auto object = nlohmann::json::parse(to_json(default_cluster()));
  object[nlohmann::json::json_pointer(pointer)] = value;
  return object.dump();
}

TEST(Cluster, JsonRoundTrips) {
  Cluster cluster = default_cluster(6);
  cluster.num_hosts = 3;
  cluster.network = parse_link("25gbit,3.3us");
  cluster.fabric = Fabric::pairs;
  EXPECT_EQ(parse_cluster(to_json(cluster), "text"), cluster);
}

TEST(Cluster, RanksFillHostsInBlocks) {
  Cluster cluster = default_cluster(2);
  cluster.num_hosts = 2;
  EXPECT_EQ(cluster.host_of(1), 0);
  EXPECT_EQ(cluster.host_of(2), 1);
  EXPECT_EQ(refusal([&] { cluster.host_of(4); }), "no rank 4 in cluster \"local\" of 4 ranks; use 0 to 3");
}

TEST(Cluster, ShippedFilesLoad) {
  const auto folder = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "clusters";
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++num_files;
    EXPECT_EQ(load_cluster(entry.path().string()).name, entry.path().stem().string());
  }
  EXPECT_GE(num_files, 2);
  EXPECT_EQ(load_cluster((folder / "local.json").string()), default_cluster());
}

TEST(Cluster, HostileFilesAreRefusedByFieldName) {
  const auto refusal_of = [](const std::string& text) { return refusal([&] { parse_cluster(text, "c.json"); }); };
  EXPECT_EQ(refusal_of(with("/num_hosts", -1)), "c.json: \"num_hosts\" is -1; give a whole number from 1 to 1048576");
  EXPECT_EQ(refusal_of(with("/num_hosts", 2.5)), "c.json: \"num_hosts\" is 2.5; give a whole number from 1 to 1048576");
  EXPECT_EQ(refusal_of(with("/flops_per_s", "fast")),
            "c.json: \"flops_per_s\" is \"fast\"; give a number from 1 to 1e+18");
  EXPECT_EQ(refusal_of(with("/local/latency_s", -1e-6)),
            "c.json: in \"local\": \"latency_s\" is -1e-06; give a number from 0 to 1000");
  EXPECT_EQ(refusal_of(with("/fabric", "mesh")), "c.json: \"fabric\" is \"mesh\"; use nic or pairs");
  EXPECT_EQ(refusal_of(with("/network", 3)), "c.json: \"network\" is 3; give an object {...}");
  EXPECT_NE(refusal_of(with("/signal_s", nullptr)).find("\"signal_s\" is null"), std::string::npos);
  EXPECT_NE(refusal_of(with("/ranks_per_host", 1 << 21)).find("\"ranks_per_host\" is 2097152"), std::string::npos);
  EXPECT_NE(refusal_of(with("/read_bytes_per_s", 1e300)).find("\"read_bytes_per_s\""), std::string::npos);
  EXPECT_NE(refusal_of(with("/flop_per_s", 1)).find("unknown field \"flop_per_s\""), std::string::npos);
  for (const char* text : {"", "[]", "3", "{}", "{\"name\": NaN}", "{\"name\": 1e999}", "{\"name\""})
    EXPECT_EQ(refusal_of(text).find("c.json: "), 0u) << text;
}

TEST(Cluster, EveryFieldIsRequired) {
  const auto whole = nlohmann::json::parse(to_json(default_cluster()));
  for (const auto& item : whole.items()) {
    if (item.key() == "library_flops_per_s") continue;  // files of before know nothing of libraries
    auto object = whole;
    object.erase(item.key());
    EXPECT_EQ(
        refusal([&] { parse_cluster(object.dump(), "c.json"); }).find("c.json: \"" + item.key() + "\" is missing"), 0u);
  }
}

TEST(Cluster, KnowsTheRateOfALibraryWhereOneWasMeasured) {
  Cluster cluster = default_cluster();
  EXPECT_EQ(cluster.library_flops_per_s, 0);
  EXPECT_EQ(by_fastest_product(cluster), cluster) << "none: Weft's own product is the fastest";
  cluster.library_flops_per_s = 1.5 * cluster.flops_per_s;
  EXPECT_EQ(parse_cluster(to_json(cluster), "text"), cluster);
  EXPECT_DOUBLE_EQ(by_fastest_product(cluster).flops_per_s, 1.5 * cluster.flops_per_s);
  EXPECT_DOUBLE_EQ(with_cores(cluster, 0.5).library_flops_per_s, cluster.library_flops_per_s / 2);
  cluster.library_flops_per_s = 0.5 * cluster.flops_per_s;
  EXPECT_DOUBLE_EQ(by_fastest_product(cluster).flops_per_s, cluster.flops_per_s);
  EXPECT_EQ(refusal([] { parse_cluster(with("/library_flops_per_s", -1), "c.json"); }),
            "c.json: \"library_flops_per_s\" is -1; give a number from 0 to 1e+18");
}

TEST(Cluster, RanksThatShareACoreAreSlower) {
  const Cluster whole = default_cluster(4), half = with_cores(whole, 0.5);
  EXPECT_DOUBLE_EQ(half.flops_per_s, whole.flops_per_s / 2);
  EXPECT_EQ(half.library_flops_per_s, 0) << "none stays none";
  EXPECT_DOUBLE_EQ(half.step_s, whole.step_s * 2);
  EXPECT_EQ(half.network, whole.network);
}

TEST(Link, ReadsRateAndLatency) {
  EXPECT_EQ(parse_link("10gbit,10us"), (Link{1.25e9, 10e-6}));
  EXPECT_EQ(parse_link("100 mbit"), (Link{12.5e6, 0}));
  EXPECT_EQ(parse_link("1GB/s,500ns"), (Link{1e9, 500e-9}));
  EXPECT_EQ(parse_link("shm"), default_cluster().local);
  EXPECT_EQ(to_string(parse_link("10gbit,10us")), "1.25 GB/s,10.0 us");
  EXPECT_EQ(parse_link(to_string(Link{1.25e9, 0})), (Link{1.25e9, 0}));
}

TEST(Link, ReadsItsFabric) {
  EXPECT_EQ(parse_link("1gbit,10us,nic"), (Link{125e6, 10e-6, Fabric::nic}));
  EXPECT_EQ(parse_link("1gbit,nic"), (Link{125e6, 0, Fabric::nic}));
  EXPECT_EQ(parse_link("1gbit,10us,pairs"), parse_link("1gbit,10us"));
  EXPECT_EQ(to_string(parse_link("10gbit,10us,nic")), "1.25 GB/s,10.0 us,nic");
  EXPECT_EQ(parse_link("1.25 GB/s,10.0 us,nic"), (Link{1.25e9, 10e-6, Fabric::nic}));
}

TEST(Link, RefusalsNameTheValueAndTheRemedy) {
  EXPECT_EQ(refusal([] { parse_link("10gibt,10us"); }),
            "cannot read link \"10gibt,10us\": unknown unit \"gibt\" in \"10gibt\"; write a number and a unit, as "
            "10gbit, 800mbit or 11 GB/s; or use shm");
  for (const char* text :
       {"", ",", "10gbit,", ",10us", "10us,10gbit", "-1gbit,1us", "0gbit,1us", "10gbit,1us,2us", "SHM", "nic", ",nic",
        "10gbit,,nic", "10gbit,1us,nics", "10gbit,nic,1us", "10gbit,1us,nic,nic"})
    EXPECT_NE(refusal([&] { parse_link(text); }), "did not throw") << text;
}

}  // namespace
}  // namespace weft
