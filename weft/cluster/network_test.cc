#include "weft/cluster/network.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

const Link kLink{1.25e9, 10e-6}, kLocal{19e9, 1e-7};

// A network of 2 hosts x 2 ranks as a file, with one field changed, at a JSON pointer.
std::string network_with(const std::string& pointer, const nlohmann::json& value) {
  auto object = nlohmann::json::parse(to_json(one_nic_a_host(2, 2, kLink, kLocal)));
  object[nlohmann::json::json_pointer(pointer)] = value;
  return object.dump();
}

TEST(Network, OneNicAHost) {
  const Network network = one_nic_a_host(3, 4, kLink, kLocal);
  EXPECT_EQ(network.num_ranks(), 12);
  EXPECT_EQ(network.num_hosts(), 3);
  EXPECT_EQ(network.host_of(7), 1);
  EXPECT_EQ(network.nics[2], (Nic{2, 1.25e9}));
  EXPECT_EQ(network.latency_s, 10e-6);
  EXPECT_EQ(network, one_nic_a_host({0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, kLink, kLocal));
  EXPECT_NE(refusal([] { one_nic_a_host(0, 4, kLink, kLocal); }).find("0 hosts x 4 devices"), std::string::npos);
  EXPECT_NE(refusal([] { one_nic_a_host(1, 1, {0, 0}, kLocal); }).find("NIC 0 moves 0 bytes"), std::string::npos);
}

TEST(Network, JsonRoundTrips) {
  Network network = one_nic_a_host(3, 2, kLink, kLocal);
  network.nics.push_back({0, 5e9});  // a second NIC of host 0, not beside its first
  network.nic_of[1] = 3;
  network.rack_of = {0, 1, 1};
  network.uplink = {0, 2e9};
  EXPECT_EQ(parse_network(to_json(network), "text"), network);
}

TEST(Network, TheShortFormIsForHostsThatAreAlike) {
  const Network network = parse_network(R"({"name": "n", "num_hosts": 4, "ranks_per_host": 4, "nics_per_host": 2,
      "nic_bytes_per_s": 1e9, "hosts_per_rack": 2, "uplink_bytes_per_s": 3e9,
      "local": {"bytes_per_s": 1e10, "latency_s": 0}, "latency_s": 1e-6})",
                                        "n.json");
  EXPECT_EQ(network.nics.size(), 8u);
  EXPECT_EQ(network.nic_of, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}));
  EXPECT_EQ(network.rack_of, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(network.uplink, (std::vector<double>{3e9, 3e9}));
}

TEST(Network, ShippedFilesLoad) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "clusters" / "networks")) {
    ++num_files;
    EXPECT_EQ(load_network(entry.path().string()).name, entry.path().stem().string());
  }
  EXPECT_GE(num_files, 4);
}

TEST(Network, HostileFilesAreRefusedByFieldName) {
  const auto refusal_of = [](const std::string& text) { return refusal([&] { parse_network(text, "n.json"); }); };
  EXPECT_EQ(refusal_of(network_with("/nics/1/host", 2)),
            "n.json: NIC 1 is in host 2, but there are 2 hosts; number hosts from 0 and give each a rack");
  EXPECT_EQ(refusal_of(network_with("/nic_of/3", 9)),
            "n.json: rank 3 is near NIC 9, but there are 2 NICs; number them from 0");
  EXPECT_EQ(refusal_of(network_with("/nic_of/0", -1)),
            "n.json: entry 0 of \"nic_of\" is -1; give whole numbers from 0 to 1048575");
  EXPECT_NE(refusal_of(network_with("/nic_of/0", "a")).find("entry 0 of \"nic_of\" is \"a\""), std::string::npos);
  EXPECT_NE(refusal_of(network_with("/rack_of/1", 1)).find("host 1 is in rack 1, but there are 1 racks"),
            std::string::npos);
  EXPECT_NE(refusal_of(network_with("/nics/0/bytes_per_s", 0)).find("NIC 0: \"bytes_per_s\" is 0"), std::string::npos);
  EXPECT_NE(refusal_of(network_with("/uplinks/0/bytes_per_s", 0.5)).find("the uplink of rack 0 moves 0.5"),
            std::string::npos);
  EXPECT_NE(refusal_of(network_with("/nic_of", nlohmann::json::array())).find("without ranks"), std::string::npos);
  EXPECT_NE(refusal_of(network_with("/nicks", 1)).find("unknown field \"nicks\""), std::string::npos);
  for (const char* text : {"", "[]", "3", "{}", "{\"num_hosts\": 0}", "{\"name\": 1e999}"})
    EXPECT_EQ(refusal_of(text).find("n.json"), 0u) << text;
}

}  // namespace
}  // namespace weft
