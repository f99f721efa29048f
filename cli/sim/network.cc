// The network that --network names, and what --slow-rank, --slow-link and --packet make of it.
#include <CLI/CLI.hpp>

#include "weft/base/error.h"
#include "weft/base/units.h"

#include "cli/flag_values.h"
#include "cli/sim/net.h"

namespace weft::cli::sim {
namespace {

double factor_of(const std::string& flag, const std::string& text, std::size_t equals) {
  if (equals != std::string::npos && equals > 0) return read_finite(flag, text.substr(equals + 1));
  bad_input("{} {} has no factor; give {}", flag, text, flag == "--slow-rank" ? "RANK=FACTOR" : "FROM>TO=FACTOR");
}

}  // namespace

Topology load_network(const NetworkFlags& flags) {
  if (flags.network.empty())
    bad_input("no network to run on; give --network NAME|FILE, as --network torus-16x8 (clusters/topologies)");
  Topology out = load_topology(flags.network);
  if (flags.packet == "whole")
    out.packet_bytes = kWholeMessage;
  else if (!flags.packet.empty())
    out.packet_bytes = parse_bytes(flags.packet);
  return out;
}

void slow_down(const NetworkFlags& flags, Topology* out) {
  for (const std::string& one : flags.slow_rank) {
    const std::size_t equals = one.find('=');
    const double factor = factor_of("--slow-rank", one, equals);
    check_whole("--slow-rank", one.substr(0, equals), 0, 1 << 20);
    slow_rank(out, std::stoi(one.substr(0, equals)), factor, "--slow-rank " + one);
  }
  for (const std::string& one : flags.slow_link) {
    const std::size_t equals = one.rfind('='), arrow = one.find('>');
    const double factor = factor_of("--slow-link", one, equals);
    if (arrow == std::string::npos || arrow > equals)
      bad_input("--slow-link {} names no two ends; give FROM>TO=FACTOR, as \"rank 3>rank 4=2\"", one);
    slow_wire(out, one.substr(0, arrow), one.substr(arrow + 1, equals - arrow - 1), factor, "--slow-link " + one);
  }
}

Topology network_of(const NetworkFlags& flags) {
  Topology out = load_network(flags);
  slow_down(flags, &out);
  return out;
}

void add_network_flags(CLI::App* command, NetworkFlags* flags) {
  command->add_option("--network", flags->network, "a name of clusters/topologies or clusters/networks, or a file")
      ->type_name("NAME|FILE");
  command->add_option("--slow-rank", flags->slow_rank, "a rank whose steps take longer")->type_name("RANK=FACTOR");
  command->add_option("--slow-link", flags->slow_link, "a link with less rate, by the names of its ends")
      ->type_name("FROM>TO=FACTOR");
  command->add_option("--packet", flags->packet, "what a switch waits for before it sends on: bytes, or whole")
      ->type_name("BYTES");
}

}  // namespace weft::cli::sim
