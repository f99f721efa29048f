// The flags that say how tokens are picked: one spelling for `weft generate` and `weft chat`.
#pragma once

#include "weft/llm/engine/sampler.h"

namespace CLI {
class App;
}

namespace weft::cli {

void add_sampling_flags(CLI::App& app, SamplerOptions* sampler);
// Whether one of them but the seed is given: then what generation_config.json says does not hold.
bool sampling_given(const CLI::App& app);

}  // namespace weft::cli
