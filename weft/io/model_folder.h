// Model folders as people name them.
#pragma once

#include <string>

namespace weft {

// Throws bad_input where `folder` is not there but is written as a model's name on a hub, as "org/name": Weft fetches
// nothing, and says how to. Any other folder passes; whoever reads its files says what is missing.
void check_model_folder(const std::string& folder);

}  // namespace weft
