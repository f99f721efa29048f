#include "cli/rank_flags.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/transport/join/rendezvous.h"
#include "weft/transport/local/shm.h"

#include "cli/flag_values.h"
#include "cli/out_file.h"

namespace weft::cli {

CLI::Option* add_ranks_flag(CLI::App& app, RankFlags* flags, const std::string& help) {
  return add_number(app, "--ranks", &flags->count, help)->type_name("N");
}

CLI::Option* add_ranks_per_host_flag(CLI::App& app, RankFlags* flags) {
  return add_number(app, "--ranks-per-host", &flags->per_host, "ranks fill hosts in blocks of this many", 1)
      ->type_name("N");
}

CLI::Option* add_threads_flag(CLI::App& app, RankFlags* flags, const std::string& help) {
  return add_number(app, "--threads", &flags->threads, help, 1)->type_name("T");
}

CLI::Option* add_transport_flag(CLI::App& app, RankFlags* flags) {
  return app.add_option("--transport", flags->transport, "shm: ranks are processes; or threads")->type_name("NAME");
}

CLI::Option* add_link_flag(CLI::App& app, RankFlags* flags, const std::string& help) {
  return app
      .add_option("--link", flags->link,
                  !help.empty()
                      ? help
                      : "between ranks: shm, RATE[,LATENCY][,nic] to pace it to, as 10gbit,10us (nic: all "
                        "that a host sends shares it), or the wire between hosts: tls, ucx (RDMA) or ucx,trusted")
      ->type_name("LINK");
}

CLI::Option* add_trace_flag(CLI::App& app, RankFlags* flags) {
  return add_out_file(app, "--trace", &flags->trace, "write a timeline of all ranks, for ui.perfetto.dev");
}

bool is_paced(const std::string& link) { return !link.empty() && link != "shm" && !parse_wire(link); }

std::optional<Link> paced_link(const std::string& link) {
  if (!is_paced(link)) return {};
  return parse_link(link);
}

void check_rank_flags(const RankFlags& flags) {
  if (flags.threads < 1 || flags.threads > 256) bad_input("--threads is {}; use 1 to 256", flags.threads);
  if (flags.transport != "shm" && flags.transport != "threads")
    bad_input("unknown transport \"{}\"; use shm or threads", flags.transport);
  paced_link(flags.link);
  if (flags.per_host > 0 && flags.link == "shm")
    bad_input("--ranks-per-host is {}, but no link joins hosts; add one, as --link 1gbit", flags.per_host);
}

void check_num_ranks(int ranks, int least) {
  if (ranks < least || ranks > kMaxLocalRanks)
    bad_input("--ranks is {}; use {} to {}{}", ranks, least, kMaxLocalRanks,
              least == 2 ? ": one rank has nobody to communicate with" : "");
}

WorldOptions world_options(const RankFlags& flags) {
  WorldOptions options;
  options.threads = flags.threads;
  options.link = paced_link(flags.link);
  options.wire = parse_wire(flags.link);
  if (flags.per_host > 0) options.ranks_per_host = flags.per_host;
  options.trace = flags.trace;
  return options;
}

int num_ranks(int asked) { return launched() ? launched_size() : asked; }

int threads_sharing_cores(int ranks) { return std::max(1, static_cast<int>(usable_cores() / std::max(ranks, 1))); }

void fill_threads(RankFlags* flags) {
  if (flags->threads == 0) flags->threads = threads_sharing_cores(launched() ? launched_here() : flags->count);
}

}  // namespace weft::cli
