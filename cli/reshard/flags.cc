#include "cli/reshard/flags.h"

#include <CLI/CLI.hpp>

#include "cli/flag_values.h"

namespace weft::cli::reshard {

void add_flags(CLI::App& command, Flags* flags) {
  const auto text = [&](const char* name, std::string* into, const char* help, const char* type) {
    command.add_option(name, *into, help)->type_name(type);
  };
  text("--shape", &flags->shape, "sizes of the tensor, as 1024,1024,512", "N,N,...");
  text("--src", &flags->src, "source mesh: 2x4 (hosts x devices), or named axes: dp=2,tp=4[@HOSTS]", "MESH");
  text("--dst", &flags->dst, "destination mesh, on ranks after the source's", "MESH");
  text("--src-spec", &flags->src_spec, "one letter per dimension: R, S0, S1, S01, or S(tp), S(dp,tp)", "SPEC");
  text("--dst-spec", &flags->dst_spec, "the same for the destination", "SPEC");
  text("--dtype", &flags->dtype, "f32, bf16, i32, i64, u8 (i32)", "DTYPE");
  text("--dst-dtype", &flags->dst_dtype, "where it changes on the way: f32 and bf16 do", "DTYPE");
  command.add_flag("--overlap", flags->overlap, "the destination is on the source's own ranks");
  text("--dst-ranks", &flags->dst_ranks, "or on these, as 4-11", "RANKS");
  add_number(command, "--case", &flags->number, "one of the nine cases of Zhuang et al., MLSys 2023: 1 to 9")
      ->type_name("N");
  text("--tensors", &flags->tensors, "many tensors at once: a manifest (workloads/reshard/NAME.json, or a path)",
       "FILE");
  text("--scale", &flags->scale, "with --tensors: a smaller copy, as 1/64", "PART");
  command.add_flag("--small", flags->small, "with --tensors: its version for one machine");
  text("--size", &flags->size, "make the first dimension as long as these bytes need, as 64MB", "BYTES");
  text("--strategy", &flags->strategy, "auto, broadcast, send_recv, local_allgather, global_allgather", "NAME");
  text("--choice", &flags->choice, "who sends, in which order: ours, naive, balance, dfs, greedy", "NAME");
  add_number(command, "--node-budget", &flags->node_budget, "of dfs and of exact searches (200000)")->type_name("N");
  add_number(command, "--seed", &flags->seed, "of greedy (1)")->type_name("N");
  text("--network", &flags->network, "NICs, racks and uplinks (clusters/networks/NAME.json, or a path)", "FILE");
  command.add_flag("--compare", flags->compare, "all strategies and choices, in one table");
  command.add_flag("--json", flags->json, "one JSON object on standard output");
}

}  // namespace weft::cli::reshard
