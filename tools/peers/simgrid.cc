// SimGrid beside `weft sim net`: the same collectives and random flows on the same links, for tools/peers/compare.py.
// Not part of the build: g++ -O2 -std=c++17 simgrid.cc -lsimgrid (Debian: libsimgrid-dev). Prints seconds of simulated
// time and of its own.
//
//   simgrid ring N BYTES RATE LATENCY     all-reduce of BYTES by a ring, a link to each neighbour and direction
//   simgrid a2a N BYTES RATE LATENCY      all-to-all of BYTES a pair through a switch, peers r + 1, r + 2, ...
//   simgrid flows FILE N RATE LATENCY     lines "from to bytes" through a switch, all at once
#include <chrono>
#include <cstdio>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg = simgrid::s4u;

namespace {

struct Net {
  std::vector<sg::Host*> hosts;
  std::vector<const sg::Link*> up, down;
};

std::string host_name(int rank) { return "h" + std::to_string(rank); }
sg::Mailbox* box(int from, int to) { return sg::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to)); }

Net build_switch(sg::NetZone* zone, int n, double rate, double latency) {
  Net out;
  for (int r = 0; r < n; ++r) {
    out.hosts.push_back(zone->create_host(host_name(r), 1e9)->seal());
    out.up.push_back(zone->create_link("up" + std::to_string(r), rate)->set_latency(latency)->seal());
    out.down.push_back(zone->create_link("down" + std::to_string(r), rate)->set_latency(latency)->seal());
  }
  return out;
}

// Each rank sends a chunk, waits for one, and sends that on: 2 (N - 1) rounds.
void ring_rank(int rank, int n, double chunk) {
  static int token = 0;
  for (int round = 0; round < 2 * (n - 1); ++round) {
    sg::CommPtr sent = box(rank, (rank + 1) % n)->put_async(&token, static_cast<uint64_t>(chunk));
    box((rank + n - 1) % n, rank)->get<int>();
    sent->wait();
  }
}

void exchange_rank(int rank, int n, double bytes) {
  static int token = 0;
  std::vector<sg::CommPtr> all;
  int* ignored = nullptr;
  for (int i = 1; i < n; ++i) all.push_back(box((rank + n - i) % n, rank)->get_async<int>(&ignored));
  for (int i = 1; i < n; ++i) all.push_back(box(rank, (rank + i) % n)->put_async(&token, static_cast<uint64_t>(bytes)));
  for (const sg::CommPtr& one : all) one->wait();
}

void sender(int from, int to, double bytes, int id) {
  static int token = 0;
  sg::Mailbox::by_name("f" + std::to_string(id))->put(&token, static_cast<uint64_t>(bytes));
  (void)from, (void)to;
}
void receiver(int id) { sg::Mailbox::by_name("f" + std::to_string(id))->get<int>(); }

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (const char* option : {"--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:0",
                             "--log=root.thresh:error"})
    words.push_back(option);
  std::vector<char*> raw;
  for (std::string& word : words) raw.push_back(word.data());
  int count = static_cast<int>(raw.size());
  sg::Engine engine(&count, raw.data());
  const std::string what = argv[1];
  const bool flows = what == "flows";
  const int n = std::atoi(argv[flows ? 3 : 2]);
  const double bytes = flows ? 0 : std::atof(argv[3]), rate = std::atof(argv[4]), latency = std::atof(argv[5]);
  sg::NetZone* zone = sg::create_full_zone("zone");
  const Net net = build_switch(zone, n, rate, latency);
  const auto begin = std::chrono::steady_clock::now();
  if (what == "ring") {  // a link between neighbours alone: the sender's
    for (int r = 0; r < n; ++r)
      zone->add_route(net.hosts[r]->get_netpoint(), net.hosts[(r + 1) % n]->get_netpoint(), nullptr, nullptr,
                      {sg::LinkInRoute(net.up[r])}, false);
    for (int r = 0; r < n; ++r) sg::Actor::create("a", net.hosts[r], ring_rank, r, n, bytes / n);
  } else {
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to)
        if (from != to)
          zone->add_route(net.hosts[from]->get_netpoint(), net.hosts[to]->get_netpoint(), nullptr, nullptr,
                          {sg::LinkInRoute(net.up[from]), sg::LinkInRoute(net.down[to])}, false);
    if (flows) {
      std::ifstream in(argv[2]);
      int from = 0, to = 0, id = 0;
      for (double size = 0; in >> from >> to >> size; ++id) {
        sg::Actor::create("s", net.hosts[from], sender, from, to, size, id);
        sg::Actor::create("r", net.hosts[to], receiver, id);
      }
    } else {
      for (int r = 0; r < n; ++r) sg::Actor::create("a", net.hosts[r], exchange_rank, r, n, bytes);
    }
  }
  zone->seal();
  engine.run();
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%.12g %.6g\n", sg::Engine::get_clock(), wall);
  return 0;
}
