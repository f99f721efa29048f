// Ranks that compile together tell each other what they have, step by step. One that cannot go on says why, so that all
// of its group refuse together and may go on; and takes the steps that are left with nothing to say, so that ranks of
// other groups do not wait for it.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/mesh/mesh.h"

namespace weft {

class Transport;

inline constexpr std::string_view kToldOfGpus = "what a rank says of its GPU";

class Accord {
 public:
  Accord(Transport& transport, const Group& group);

  // Collective over the world. What every rank says, once `mine` has been made; where one of the group has refused,
  // now or before, nothing that is of use.
  std::vector<Json> tell(const std::function<Json()>& mine);

  // What all ranks of the group find alike. `look` throws bad_input.
  void check(const std::function<void()>& look);

  void settle() const;  // throws bad_input where somebody has refused

 private:
  Transport& transport_;
  const Group& group_;
  std::optional<Error> refused_;
};

// What a call of bad_input or no_memory says; none where it returns.
std::optional<std::string> refusal_of(const std::function<void()>& call);

}  // namespace weft
