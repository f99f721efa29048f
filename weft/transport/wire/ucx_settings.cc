#include "weft/transport/wire/ucx_settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 5> kShared = {"posix", "sysv", "cma", "xpmem", "knem"};
constexpr std::array<std::string_view, 3> kSharedGroups = {"sm", "shm", "mm"};  // UCX's names for several of them

std::string join(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ",") + word;
  return all;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (comma > 0) words.emplace_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return words;
}

template <class Names>
bool contains(const Names& names, std::string_view word) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

}  // namespace

std::string allowed_transports(std::string_view asked, bool tcp) {
  std::vector<std::string_view> barred(kShared.begin(), kShared.end());
  if (!tcp) barred.emplace_back("tcp");
  const bool denies = asked.starts_with('^');
  std::vector<std::string> words = split(denies ? asked.substr(1) : asked);
  if (words.empty() || denies || contains(words, "all")) {
    if (!denies) words.clear();
    for (const std::string_view name : barred)
      if (!contains(words, name)) words.emplace_back(name);
    return "^" + join(words);
  }
  std::erase_if(words, [&](std::string word) {
    if (word.starts_with('\\')) word.erase(0, 1);  // UCX: exactly this one, not the group of that name
    return contains(barred, word) || contains(kSharedGroups, word);
  });
  if (words.empty())
    bad_input("UCX_TLS={} leaves no transport between hosts, since it names {} only; unset it, or {}", asked,
              tcp ? "shared memory" : "shared memory and TCP", tcp ? "add tcp" : "use --link ucx,trusted");
  return join(words);
}

std::vector<std::pair<std::string, std::string>> ucx_settings(const UcxNetwork& network, bool prefixed) {
  const auto of_tcp = [&](const char* name) { return (prefixed ? "TCP_" : "") + std::string(name); };
  const char* transports = std::getenv("UCX_TLS");
  std::vector<std::pair<std::string, std::string>> settings = {
      {"TLS", allowed_transports(transports == nullptr ? "" : transports, network.tcp)},
      {"RNDV_THRESH", "inf"},
      {"ZCOPY_THRESH", "8k"},
      {"WARN_INVALID_CONFIG", "n"},  // it would print that a machine has no xpmem to exclude
      // One fragment of UCX holds one message: rows are copied once, from UCX's receive buffer to their place.
      {of_tcp("RX_SEG_SIZE"), std::to_string(kMessageBytes + 2048)},
      {of_tcp("TX_SEG_SIZE"), "16k"},
      {of_tcp("CONN_NB"), "y"},  // connecting to a host that is gone must not hold up the whole wire
  };
  if (!network.device.empty() && std::getenv("UCX_NET_DEVICES") == nullptr)
    settings.emplace_back("NET_DEVICES", network.device);
  return settings;
}

}  // namespace weft
