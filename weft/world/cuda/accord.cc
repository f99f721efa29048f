#include "weft/world/cuda/accord.h"

#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/transport/transport.h"

namespace weft {

std::optional<std::string> refusal_of(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const Error& error) {
    if (error.code() != Code::bad_input && error.code() != Code::no_memory) throw;
    return error.what();
  }
}

Accord::Accord(Transport& transport, const Group& group) : transport_(transport), group_(group) {}

std::vector<Json> Accord::tell(const std::function<Json()>& mine) {
  Json said = Json::object();
  if (!refused_)
    if (const auto why = refusal_of([&] { said = mine(); })) said = {{"refused", *why}};
  std::vector<Json> out;
  for (const std::string& text : transport_.all_gather(said.dump())) out.push_back(parse_json(text, kToldOfGpus));
  for (const int rank : group_.ranks) {
    const Json* why = find_field(out[at(rank)], "refused", kToldOfGpus);
    if (why == nullptr || refused_) continue;
    refused_ =
        Error(Code::bad_input, fmt::format("rank {} cannot compile for a GPU: {}", rank, why->get<std::string>()));
  }
  return out;
}

void Accord::check(const std::function<void()>& look) {
  if (refused_) return;
  try {
    look();
  } catch (const Error& error) {
    refused_ = error;
  }
}

void Accord::settle() const {
  if (refused_) throw *refused_;
}

}  // namespace weft
