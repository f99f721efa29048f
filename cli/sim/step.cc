// The flags of a training step, which `weft sim net WORKLOAD` and `weft sim scale` share.
#include <CLI/CLI.hpp>

#include "cli/flag_values.h"
#include "cli/sim/net.h"

namespace weft::cli::sim {

void add_step_flags(CLI::App* command, netsim::StepRequest* flags) {
  add_number(*command, "--tp", &flags->tp, "WORKLOAD: ranks that share a layer (the file's)", 1);
  add_number(*command, "--pp", &flags->pp, "stages of a pipeline", 1);
  add_number(*command, "--dp", &flags->dp, "replicas", 1);
  add_number(*command, "--ep", &flags->ep, "ranks that share experts", 1);
  add_number(*command, "--micro-batches", &flags->micro_batches, "of a replica per step", 1);
  add_number(*command, "--micro-batch", &flags->micro_batch, "sequences; dlrm: samples of a rank", std::int64_t{1});
  command->add_option("--fuse", flags->fuse, "TRACE: compute nodes to fuse with the collective that needs them")
      ->type_name("PATTERN");
  command->add_option("--groups", flags->groups, "TRACE: groups of ranks by name, as {\"0\": [0, 1]}")
      ->type_name("FILE");
  command->add_option("--schedule", flags->schedule, "gpipe, 1f1b, eager_1f1b, interleaved_1f1b or zero_bubble");
  command->add_option("--forward", flags->forward, "producers and their collectives: bulk, panels or fused (bulk)");
  command->add_option("--backward", flags->backward, "the same in the backward pass (bulk)");
  add_number(*command, "--panels", &flags->panels, "parts of a producer in panels (4)", 1);
  add_number(*command, "--pieces", &flags->pieces, "messages of a fused producer's chunk (8)", 1);
  command->add_option("--reduction", flags->reduction, "all_reduce, or reduce_scatter and all_gather (all_reduce)");
  command->add_option("--route", flags->route, "of all_reduce (ring)");
  add_number(*command, "--fused-factor", &flags->fused_factor, "on the time of a producer that is fused (1)");
  add_number(*command, "--update-parts", &flags->update_parts, "dlrm: the exchange of gradients and the update (1)", 1);
  add_number(*command, "--update-factor", &flags->update_factor, "dlrm: on the traffic of a table's update (1)");
}

}  // namespace weft::cli::sim
