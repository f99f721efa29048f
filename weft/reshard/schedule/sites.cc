#include "weft/reshard/schedule/sites.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

void add_doors(Site& site, const std::vector<int>& ranks, const Network& network) {
  for (const int rank : ranks) {
    const int nic = network.nic_of[at(rank)];
    const auto is_there = [&](const Door& door) { return door.nic == nic; };
    if (std::none_of(site.doors.begin(), site.doors.end(), is_there)) site.doors.push_back({nic, rank});
  }
}

void add_nics(const std::vector<Site>& sites, std::vector<int>& nics) {
  for (const Site& site : sites)
    for (const Door& door : site.doors) nics.push_back(door.nic);
  std::sort(nics.begin(), nics.end());
}

Sites sites_of(const Task& task, const Network& network) {
  std::map<int, Site> by_host;
  for (const int rank : task.senders) by_host[network.host_of(rank)].holders.push_back(rank);
  for (const int rank : task.receivers) by_host[network.host_of(rank)].receivers.push_back(rank);
  Sites sites;
  for (auto& [host, site] : by_host) {
    site.host = host;
    add_doors(site, site.holders, network);
    add_doors(site, site.receivers, network);
    std::sort(site.doors.begin(), site.doors.end(), [](const Door& a, const Door& b) { return a.nic < b.nic; });
    (site.holders.empty() ? sites.wanting : sites.holding).push_back(std::move(site));
  }
  for (const Site& site : sites.holding)
    for (const Door& door : site.doors)
      if (site.holds(door.rank)) sites.senders.push_back(door);
  add_nics(sites.holding, sites.exits);
  sites.relays = sites.exits;
  add_nics(sites.wanting, sites.relays);
  return sites;
}

void check_task(const Task& task, const Network& network) {
  if (task.senders.empty() || task.receivers.empty())
    bad_input("a task on {} has {} senders and {} receivers; it needs at least one of each", to_string(task.box),
              task.senders.size(), task.receivers.size());
  for (const std::vector<int>* ranks : {&task.senders, &task.receivers})
    for (const int rank : {ranks->front(), ranks->back()})
      if (rank < 0 || rank >= network.num_ranks())
        bad_input("a task names rank {}, but network \"{}\" has {} ranks; use one with more", rank, network.name,
                  network.num_ranks());
}

struct Hash {
  std::size_t operator()(const std::vector<int>& ranks) const {
    std::size_t value = 1469598103934665603u;
    for (const int rank : ranks) value = (value ^ at(rank)) * 1099511628211u;
    return value;
  }
};

}  // namespace

SiteTable::SiteTable(const std::vector<Task>& tasks, const Network& network) {
  std::unordered_map<std::vector<int>, int, Hash> known;  // by senders, then receivers as negative numbers
  std::vector<int> key;
  for (const Task& task : tasks) {
    check_task(task, network);
    key = task.senders;
    for (const int rank : task.receivers) key.push_back(-1 - rank);
    const auto [place, is_new] = known.emplace(key, num_sites());
    if (is_new) sites_.push_back(sites_of(task, network));
    id_.push_back(place->second);
  }
}

}  // namespace weft
