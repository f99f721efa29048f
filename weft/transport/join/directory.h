// A directory: where ranks that someone else started leave texts for each other before they have met. PMIx is one,
// and so is the store of torch's launcher. It carries who shares a host with whom, and where and by which secret the
// ranks of this world meet; nothing goes through the environment. Once they have met, it is asked no more.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/transport/transport.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {

struct Directory {
  int rank = 0, size = 1;  // this rank's place in the world that meets here
  // Texts are kept by rank and key; a key is published once.
  std::function<void(const std::string& key, const std::string& text)> publish;
  // Waits until `rank` has published it; throws where it does not come.
  std::function<std::string(int rank, const std::string& key)> look_up;
};

// Collective over the directory's ranks; a process may join several worlds, each by a directory of its own. Ranks of
// one host meet there and need neither network nor TLS; those of several meet at a hub in rank 0's process
// (net_join.h). bad_input for what cannot be used, deadline and peer_failed with the rank to blame.
std::unique_ptr<Transport> attach_directory(const Directory& directory, std::optional<WireKind> wire = {});

}  // namespace weft
