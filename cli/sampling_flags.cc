#include "cli/sampling_flags.h"

#include "cli/flag_values.h"

namespace weft::cli {

void add_sampling_flags(CLI::App& app, SamplerOptions* sampler) {
  add_number(app, "--temperature", &sampler->temperature,
             "0: the most probable token; where not given, the folder's generation_config.json holds")
      ->capture_default_str();
  add_number(app, "--top-k", &sampler->top_k, "only the k most probable tokens; 0: all")->capture_default_str();
  add_number(app, "--top-p", &sampler->top_p, "only the most probable that have this probability together")
      ->capture_default_str();
  add_number(app, "--seed", &sampler->seed, "of the random numbers")->capture_default_str();
}

bool sampling_given(const CLI::App& app) {
  return app.count("--temperature") + app.count("--top-k") + app.count("--top-p") > 0;
}

}  // namespace weft::cli
