#include "weft/exec/cuda/window/tracked_rows.h"

#include <cuda_runtime.h>

#include <numeric>
#include <utility>

#include "weft/base/index.h"
#include "weft/exec/cuda/copy_engines.h"
#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"

namespace weft {
namespace {

void refuse_recording(void* queue) {
  if (is_recorded(queue)) bad_input("a run over pcie cannot be recorded in a graph; start it, or use another link");
}

}  // namespace

struct TrackedRows::Impl {
  std::string name;  // of the plan
  TrackedPlan tracked;
  std::chrono::nanoseconds deadline;
  std::vector<DeviceMemory> segments;
  std::unique_ptr<CopyEngines> engines;
  std::uint32_t run = 0;
  void* joined = nullptr;  // the queue in which the last run ends; null: all have been waited for
  bool broken = false;

  std::byte* matrix(int rank, int which) const {
    return segments[at(rank)].data() + tracked.device.layout[at(rank)].matrices[at(which)].offset;
  }
  void require_usable() const {
    if (broken) fail(Code::deadline, "a run of plan \"{}\" has failed; make a new op", name);
  }
};

TrackedRows::TrackedRows(const Plan& plan, const TrackedOptions& options) : impl_(std::make_unique<Impl>()) {
  if (!device_facts()) bad_input("there is no GPU here; a window of the CPU's is world.window()");
  Impl& i = *impl_;
  i.name = plan.name, i.deadline = options.deadline;
  i.tracked = tracked_plan(plan, Expander(plan), options.panels, options.crossing_bytes);
  std::vector<std::byte*> places;
  for (const DeviceLayout& layout : i.tracked.device.layout)
    places.push_back(i.segments.emplace_back(layout.bytes).data());
  std::vector<int> order(i.tracked.device.crossings.size());
  std::iota(order.begin(), order.end(), 0);
  i.engines = std::make_unique<CopyEngines>(i.tracked.device, std::move(places), std::move(order));
  check_cuda(cudaStreamSynchronize(nullptr), "clear memory on the device");  // before others write there
}

// Copies may be under way, or wait for panels of a run that was given up.
TrackedRows::~TrackedRows() {
  try {
    finish();
    impl_->engines->release();
  } catch (const Error&) {
  }
  cudaDeviceSynchronize();
}

const std::vector<RowPanel>& TrackedRows::panels(int rank) const { return impl_->tracked.panels[at(rank)]; }
std::byte* TrackedRows::rows(int rank) const { return impl_->matrix(rank, 0); }
const std::byte* TrackedRows::output(int rank) const { return impl_->matrix(rank, 1); }

void TrackedRows::made(int rank, int panel, void* queue) {
  impl_->require_usable();
  refuse_recording(queue);
  const RowPanel& one = panels(rank)[at(panel)];
  impl_->engines->raise(one.first_crossing, impl_->run, queue);
  impl_->engines->send(one.first_crossing + one.crossings - 1, impl_->run);
}

std::uint32_t* TrackedRows::counter(int rank, int panel) const {
  const std::int64_t counters = impl_->tracked.device.layout[at(rank)].counters;
  return reinterpret_cast<std::uint32_t*>(impl_->segments[at(rank)].data() + counters) + panel;
}

void TrackedRows::join(void* queue) {
  impl_->require_usable();
  refuse_recording(queue);
  impl_->engines->enqueue(impl_->run++, queue);
  impl_->joined = queue;
}

void TrackedRows::finish() {
  Impl& i = *impl_;
  i.require_usable();
  if (void* queue = std::exchange(i.joined, nullptr))
    if (const auto stuck = await_copies(*i.engines, queue, i.deadline)) {
      i.broken = true;
      throw Error(Code::deadline, describe_panel(i.tracked, *stuck), i.tracked.device.crossings[at(stuck->index)].from);
    }
}

}  // namespace weft
