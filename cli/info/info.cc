// `weft info`: what this build and this machine can do, and with --calibrate how fast.
#include <unistd.h>

#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/base/units.h"
#include "weft/cluster/find_cluster.h"
#include "weft/draw/text_table.h"
#include "weft/kernel/isa.h"
#include "weft/study/calibrate/calibrate.h"
#include "weft/study/device/device_study.h"
#include "weft/transport/join/pmix_job.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/wire/tls_stream.h"
#include "weft/transport/wire/wire_kind.h"
#include "weft/virtual/tools.h"

#include "cli/command.h"
#include "cli/out_file.h"

namespace weft::cli {
namespace info {
namespace {

struct Flags {
  bool json = false, calibrate = false, saves = false;
  std::string save;
};

std::string gemm_kernel() { return fmt::format("weft's own, {}", isa()); }

std::string isa_line() {
  if (best_isa() == machine_isa()) return isa();
  return fmt::format("{}, by WEFT_ISA; the machine has {}", isa(), to_string(machine_isa()));
}

std::vector<std::vector<std::string>> rate_rows(const Cluster& c) {
  const std::string library =
      c.library_flops_per_s > 0 ? fmt::format("{:.1f} Gflop/s", c.library_flops_per_s / 1e9) : "not at hand";
  return {{"gemm arithmetic", fmt::format("{:.1f} Gflop/s", c.flops_per_s / 1e9), "multiply-adds of f32 tiles"},
          {"by a library", library, "the same by the faster of oneDNN and OpenBLAS"},
          {"memory read", format_rate(c.read_bytes_per_s), "streaming: weights, inboxes"},
          {"memory write", format_rate(c.write_bytes_per_s), "copies and sums, to the rank's own output"},
          {"tiles written", format_rate(c.tile_bytes_per_s), "as a gemm makes them, beside its arithmetic"},
          {"store to a peer", format_rate(c.local.bytes_per_s), "copies and sums, to another rank's memory"},
          {"table lookup", format_rate(c.gather_bytes_per_s), "random rows of an embedding table"},
          {"and in the cache", format_rate(c.gather_cached_bytes_per_s), "rows of a table that stays there"},
          {"in the cache", format_rate(c.cache_bytes_per_s),
           fmt::format("runs that touch up to {} on a rank", format_bytes(c.cache_bytes))},
          {"an output of a gemv", format_duration(c.row_s), "beside reading its weights"},
          {"a tile", format_duration(c.step_s), "beside its arithmetic"},
          {"a signal", format_duration(c.signal_s), "from one rank to another on the host"},
          {"a run", format_duration(c.run_s), "starting it and waiting for its output"}};
}

// What ranks on several hosts need, and what this build and this machine have of it.
struct Hosts {
  std::string tls = tls_version(), ucx = ucx_version();  // empty: not in this build
  bool pmix = PmixJob::available();
  std::string mpirun = virtual_hosts::find_program("mpirun");  // empty: there is none
  std::string lacks;                                           // for virtual clusters: nothing, or what is missing
};

Hosts look_at_hosts() {
  Hosts hosts;
  if (geteuid() != 0)
    hosts.lacks = "root";
  else if (virtual_hosts::find_program("ip").empty() || virtual_hosts::find_program("tc").empty())
    hosts.lacks = "ip and tc (Debian: iproute2)";
  else if (hosts.mpirun.empty())
    hosts.lacks = "mpirun (Debian: openmpi-bin)";
  return hosts;
}

std::string mpi_line(const Hosts& hosts) {
  if (hosts.mpirun.empty()) return "no: there is no mpirun (Debian: openmpi-bin); `weft run` starts ranks";
  if (!hosts.pmix) return hosts.mpirun + ", on one host: this build has no PMIx (Debian: libpmix-dev)";
  return hosts.mpirun + ", with PMIx: on several hosts too";
}

nlohmann::ordered_json text_or_false(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(false) : nlohmann::ordered_json(text);
}

void print_json(const Cluster* rates) {
  const Hosts hosts = look_at_hosts();
  nlohmann::ordered_json transports{"threads", "shm"};
  if (!hosts.tls.empty()) transports.push_back("tls");
  if (!hosts.ucx.empty()) transports.push_back("ucx");
  nlohmann::ordered_json out{{"version", WEFT_VERSION},
                             {"isa", isa()},
                             {"machine_isa", to_string(machine_isa())},
                             {"kernels", gemm_kernel()},
                             {"transports", transports},
                             {"cuda", text_or_false(device_name())},
                             {"tls", text_or_false(hosts.tls)},
                             {"ucx", text_or_false(hosts.ucx)},
                             {"pmix", hosts.pmix},
                             {"mpi", text_or_false(hosts.mpirun)},
                             {"virtual_hosts", hosts.lacks.empty()},
                             {"cores", int_size(own_cores())},
                             {"available_memory_bytes", available_memory_bytes()},
                             {"rates", nullptr}};
  if (rates != nullptr) {  // all that a cluster holds beside its layout
    out["rates"] = nlohmann::ordered_json::parse(to_json(*rates));
    for (const char* layout : {"name", "num_hosts", "ranks_per_host", "network", "fabric"}) out["rates"].erase(layout);
  }
  fmt::print("{}", json_line(out));
}

void print_text(const Cluster* rates) {
  const Hosts hosts = look_at_hosts();
  fmt::print("weft {}\n", WEFT_VERSION);
  fmt::print("{}",
             draw::aligned(
                 {{"cores", fmt::format("{}", int_size(own_cores()))},
                  {"memory", format_bytes(available_memory_bytes()) + " available"},
                  {"isa", isa_line()},
                  {"gemm tiles", gemm_kernel()},
                  {"transports",
                   fmt::format("threads, shm{}{}", hosts.tls.empty() ? "" : ", tls", hosts.ucx.empty() ? "" : ", ucx")},
                  {"cuda", device_name().empty() ? "no: " + why_no_device() : device_name()},
                  {"tls", !hosts.tls.empty() ? "OpenSSL " + hosts.tls + ": ranks may be on several hosts"
                                             : "no: ranks are on one host in this build (libssl-dev)"},
                  {"ucx", !hosts.ucx.empty() ? hosts.ucx + ": for RDMA and trusted networks"
                                             : "no: hosts are joined without RDMA in this build (libucx-dev)"},
                  {"mpi", mpi_line(hosts)},
                  {"virtual hosts", hosts.lacks.empty() ? "yes: `weft cluster up`" : "no: they need " + hosts.lacks}}));
  if (rates == nullptr) {
    fmt::print("\nRates: not measured; `weft info --calibrate` takes four seconds.\n");
    return;
  }
  fmt::print("\nMeasured on one of two busy cores, each from medians:\n{}", draw::aligned(rate_rows(*rates)));
}

void save(const Cluster& rates, const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // writing will tell
  if (path == saved_cluster_path()) std::filesystem::create_directories(folder, ignored);
  write_file(path, to_json(rates) + "\n");
}

// What the caller does with the file, or how to get one.
void print_use(const std::string& path) {
  if (path.empty())
    fmt::print(stderr, "`auto` takes routes by such rates; keep these with `weft info --calibrate --save`\n");
  else if (path == saved_cluster_path())
    fmt::print(stderr, "saved to {}: from now on what `auto` and `weft plan` go by; delete it to go back\n", path);
  else
    fmt::print(stderr, "saved to {}; use it with `weft plan --cluster {}`, or set WEFT_CLUSTER={} for programs\n", path,
               path, path);
}

int run(Flags flags) {
  if (flags.saves && !flags.calibrate) bad_input("--save writes what --calibrate measures; add --calibrate");
  if (flags.saves && flags.save.empty()) flags.save = saved_cluster_path();
  if (flags.saves && flags.save.empty())
    bad_input("--save has no file, and neither XDG_CACHE_HOME nor HOME says where");
  Cluster rates;
  if (flags.calibrate) rates = calibrate(int_size(own_cores()));
  if (flags.json)
    print_json(flags.calibrate ? &rates : nullptr);
  else
    print_text(flags.calibrate ? &rates : nullptr);
  if (flags.saves) save(rates, flags.save);
  if (flags.calibrate) print_use(flags.save);
  return 0;
}

}  // namespace
}  // namespace info

void add_info(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("info", "what this build and machine can do; --calibrate measures it");
  auto flags = std::make_shared<info::Flags>();
  command->add_flag("--json", flags->json, "one JSON object on standard output");
  command->add_flag("--calibrate", flags->calibrate, "measure gemm, memory and signals (four seconds)");
  auto* save = add_out_file(*command, "--save", &flags->save,
                            "write the measured rates as a cluster; without FILE where `auto` looks for them: "
                            "$XDG_CACHE_HOME/weft/cluster.json, or ~/.cache/weft/cluster.json");
  save->type_name("[FILE]")->expected(0, 1);
  command->footer("Example:\n  weft info --calibrate --save\n  weft info --calibrate --save here.json");
  command->callback([=] {
    flags->saves = save->count() > 0;
    *chosen = [flags] { return info::run(*flags); };
  });
}

}  // namespace weft::cli
