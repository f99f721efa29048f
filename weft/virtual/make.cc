#include "weft/virtual/make.h"

#include <exception>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/virtual/network.h"
#include "weft/virtual/quota.h"
#include "weft/virtual/remove.h"

namespace weft::virtual_hosts {

void make_virtual_hosts(const VirtualHosts& all, bool (*interrupted)(), const std::function<void()>& finish) {
  try {
    std::filesystem::create_directories(hosts_folder(all.name));
    make_network(all, interrupted);
    for (const VirtualHost& host : all.hosts)
      if (host.cpus) make_quota(host.name, *host.cpus);
    if (finish) finish();
    if (interrupted()) fail(Code::io, "interrupted");
    save_virtual_hosts(all);
  } catch (const std::exception& error) {
    remove_virtual_hosts(all.name);
    if (interrupted()) fail(Code::io, "interrupted; nothing of cluster \"{}\" is left", all.name);
    fail(Code::io, "cannot make cluster \"{}\": {}; nothing of it is left", all.name, error.what());
  }
}

}  // namespace weft::virtual_hosts
