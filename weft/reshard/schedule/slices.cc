// Hops of a slice by strategy. What happens inside hosts is common to all: a rank that holds the box and wants it
// copies its own; the others of a holding host get it from one of its holders; of a host that lacked it, from the rank
// it came in by.
#include "weft/reshard/schedule/slices.h"

#include <algorithm>
#include <numeric>

#include "weft/base/index.h"
#include "weft/reshard/schedule/forest.h"
#include "weft/reshard/schedule/resources.h"

namespace weft {
namespace {

Job make_job(std::vector<Chunk> chunks, const Resources& resources) {
  Job job{std::move(chunks), {}, 0};
  job.uses = resources.uses(job.chunks);
  job.seconds = resources.seconds(job.uses);
  return job;
}

// A part of the box, cut along the outermost dimension that all `parts` share evenly; -1 where there is none.
int even_dim(const Box& box, std::int64_t parts) {
  for (int d = 0; d < box.dims; ++d)
    if (box.size(d) % parts == 0) return d;
  return -1;
}

Box part_of(const Box& box, int dim, std::int64_t parts, std::int64_t i) {
  Box part = box;
  part.lo[dim] = box.lo[dim] + cut(box.size(dim), parts, i);
  part.hi[dim] = box.lo[dim] + cut(box.size(dim), parts, i + 1);
  return part;
}

// Every receiver that needs a crossing gets the box straight from the root.
Chunk star(const Slice& slice, const Task& task, const Sites& sites) {
  Chunk chunk{slice.task, slice.box, bytes_of(task, slice.box), slice.outlets[0].rank, {}, 0, 0};
  for (const Site& site : sites.wanting)
    for (const int rank : site.receivers) chunk.hops.push_back({chunk.root, rank});
  return chunk;
}

// As many parts as the devices that want it on every host; hosts with different numbers of them take the least common
// multiple, where that still divides the box.
std::vector<Chunk> local_parts(const Slice& slice, const Task& task, const Sites& sites) {
  constexpr std::int64_t kMostParts = 1024;
  std::int64_t parts = 1;
  for (const Site& site : sites.wanting) {
    parts = std::lcm(parts, std::ssize(site.receivers));
    if (parts > kMostParts) return {};
  }
  const int dim = even_dim(slice.box, parts);
  if (dim < 0) return {};
  std::vector<Chunk> chunks;
  for (std::int64_t i = 0; i < parts; ++i) {
    const Box box = part_of(slice.box, dim, parts, i);
    Chunk chunk{slice.task, box, bytes_of(task, box), slice.outlets[0].rank, {}, 0, 0};
    for (const Site& site : sites.wanting) {
      const auto devices = std::ssize(site.receivers);
      const int first = site.receivers[at(i * devices / parts)];
      chunk.hops.push_back({chunk.root, first});
      for (const int rank : site.receivers)
        if (rank != first) chunk.hops.push_back({first, rank});
    }
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

// A part for every receiver, then once round the ring of all of them. Parts may differ by one along the longest
// dimension where none is a multiple of the receivers; a scalar is one part.
std::vector<Chunk> ring_parts(const Slice& slice, const Task& task, const std::vector<int>& ring) {
  const auto parts = std::ssize(ring);
  int dim = even_dim(slice.box, parts);
  if (dim < 0)
    for (int d = 0; d < slice.box.dims; ++d)
      if (dim < 0 || slice.box.size(d) > slice.box.size(dim)) dim = d;
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < (dim < 0 ? 1 : ring.size()); ++i) {
    const Box box = dim < 0 ? slice.box : part_of(slice.box, dim, parts, static_cast<std::int64_t>(i));
    if (box.empty()) continue;
    Chunk chunk{slice.task, box, bytes_of(task, box), slice.outlets[0].rank, {{slice.outlets[0].rank, ring[i]}}, 0, 0};
    for (std::size_t step = 1; step < ring.size(); ++step)
      chunk.hops.push_back({ring[(i + step - 1) % ring.size()], ring[(i + step) % ring.size()]});
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

// Scatter and ring are two phases: none of a receiver's parts goes on before the receiver has its own.
Job ring_job(const Slice& slice, const Task& task, const Sites& sites, const Resources& resources) {
  std::vector<int> ring;
  for (const Site& site : sites.wanting) ring.insert(ring.end(), site.receivers.begin(), site.receivers.end());
  Job job = make_job(ring_parts(slice, task, ring), resources);
  std::vector<Chunk> scatter = job.chunks, pass = job.chunks;
  for (Chunk& chunk : scatter) chunk.hops.resize(1);
  for (Chunk& chunk : pass) chunk.hops.erase(chunk.hops.begin());
  job.seconds = resources.seconds(resources.uses(scatter)) + resources.seconds(resources.uses(pass));
  return job;
}

}  // namespace

std::int64_t bytes_of(const Task& task, const Box& box) {
  return box == task.box ? task.bytes : task.bytes / task.box.volume() * box.volume();
}

std::vector<int> first_entries(const Sites& sites) {
  std::vector<int> entry;
  for (const Site& site : sites.wanting) entry.push_back(site.receivers.front());
  return entry;
}

Slice chain(const Task& task, int index, const Sites& sites, const Network& network, int root,
            const std::vector<int>& entry) {
  Slice slice{index, task.box, {}, entry};
  const int rack = network.rack_of[at(network.host_of(root))];
  // The last host of the chain sends nothing on. It must not be of the root's rack while another rack waits.
  std::size_t last = entry.size();
  for (std::size_t i = entry.size(); i-- > 0;) {
    if (last == entry.size()) last = i;
    if (network.rack_of[at(sites.wanting[i].host)] != rack) {
      last = i;
      break;
    }
  }
  if (!entry.empty()) slice.outlets.push_back({root, 1});
  for (std::size_t i = 0; i < entry.size(); ++i)
    if (i != last) slice.outlets.push_back({entry[i], 1});
  return slice;
}

void add_jobs(Strategy strategy, const Slice& slice, const Task& task, const Sites& sites, const Resources& resources,
              std::vector<Job>& jobs) {
  if (sites.wanting.empty() || strategy == Strategy::broadcast) {
    for (Chunk& chunk : forest(slice, task, sites, resources.network()))
      jobs.push_back(make_job({std::move(chunk)}, resources));
    return;
  }
  Job job;
  if (strategy == Strategy::global_allgather) {
    job = ring_job(slice, task, sites, resources);
  } else {
    std::vector<Chunk> chunks;
    if (strategy == Strategy::local_allgather) chunks = local_parts(slice, task, sites);
    if (chunks.empty()) chunks = {star(slice, task, sites)};
    job = make_job(std::move(chunks), resources);
  }
  const int root = slice.outlets[0].rank;
  for (const Site& site : sites.holding)
    if (site.holds(root))
      for (Chunk& chunk : job.chunks) spread(site, root, chunk.hops);
  jobs.push_back(std::move(job));
  for (Chunk& chunk : inside(slice, task, sites, {root})) jobs.push_back(make_job({std::move(chunk)}, resources));
}

}  // namespace weft
