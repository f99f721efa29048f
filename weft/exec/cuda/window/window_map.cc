#include "weft/exec/cuda/window/window_map.h"

#include <cuda.h>

#include <algorithm>

#include "weft/base/index.h"
#include "weft/exec/cuda/cuda_check.h"
#include "weft/exec/cuda/device.h"

namespace weft {
namespace {

// Of the driver, which is not linked to.
struct MapCalls {
  decltype(&cuMemGetAllocationGranularity) granularity =
      driver_function<decltype(granularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemCreate) create = driver_function<decltype(create)>("cuMemCreate");
  decltype(&cuMemRelease) release = driver_function<decltype(release)>("cuMemRelease");
  decltype(&cuMemAddressReserve) reserve = driver_function<decltype(reserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free = driver_function<decltype(free)>("cuMemAddressFree");
  decltype(&cuMemMap) map = driver_function<decltype(map)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver_function<decltype(unmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access = driver_function<decltype(set_access)>("cuMemSetAccess");
};

const MapCalls& map_calls() {
  static const MapCalls calls;
  return calls;
}

void check_map(CUresult status, const char* what) {
  if (status == CUDA_SUCCESS) return;
  fail(status == CUDA_ERROR_OUT_OF_MEMORY ? Code::no_memory : Code::internal, "CUDA could not {}: error {}", what,
       static_cast<int>(status));
}

CUmemAllocationProp device_pages() {
  CUmemAllocationProp out{};
  out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = {CU_MEM_LOCATION_TYPE_DEVICE, current_device()};
  return out;
}

// Addresses without pages, until some are mapped.
struct Addresses {
  CUdeviceptr first = 0;
  std::size_t bytes = 0;

  explicit Addresses(std::size_t bytes_in) : bytes(bytes_in) {
    check_map(map_calls().reserve(&first, bytes, 0, 0, 0), "reserve addresses");
  }
  Addresses(Addresses&& other) noexcept : first(std::exchange(other.first, 0)), bytes(other.bytes) {}
  Addresses& operator=(Addresses&&) = delete;
  ~Addresses() {
    if (first == 0) return;
    map_calls().unmap(first, bytes);
    map_calls().free(first, bytes);
  }
};

}  // namespace

struct MappedWindows::Impl {
  std::vector<Addresses> windows, outputs;
};

MappedWindows::MappedWindows(const Plan& plan) : impl_(std::make_unique<Impl>()) {
  if (!device_facts()) bad_input("there is no GPU here; a window of the CPU's is world.window()");
  check_cuda(cudaFree(nullptr), "begin");  // the driver's functions ask for a context
  const CUmemAllocationProp pages = device_pages();
  std::size_t page = 0;
  check_map(map_calls().granularity(&page, &pages, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "ask how large pages are");
  const auto stretches = stretches_of(plan, Expander(plan), static_cast<std::int64_t>(page));
  std::vector<std::int64_t> made(num(plan.num_ranks)), kept(num(plan.num_ranks));
  for (const WindowStretch& s : stretches) {
    made[at(s.from)] = std::max(made[at(s.from)], s.made + s.bytes);
    kept[at(s.to)] = std::max(kept[at(s.to)], s.kept + s.bytes);
  }
  for (std::size_t r = 0; r < made.size(); ++r)
    impl_->windows.emplace_back(num(made[r])), impl_->outputs.emplace_back(num(kept[r]));
  for (const WindowStretch& s : stretches) {
    CUmemGenericAllocationHandle handle{};
    check_map(map_calls().create(&handle, num(s.bytes), &pages, 0), "allot pages on the device");
    CUresult status = CUDA_SUCCESS;
    for (const CUdeviceptr to :
         {impl_->windows[at(s.from)].first + num(s.made), impl_->outputs[at(s.to)].first + num(s.kept)})
      if (status == CUDA_SUCCESS) status = map_calls().map(to, num(s.bytes), 0, handle, 0);
    map_calls().release(handle);  // lives as long as it is mapped
    check_map(status, "map pages");
  }
  CUmemAccessDesc access{};
  access.location = pages.location, access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  for (const auto* all : {&impl_->windows, &impl_->outputs})
    for (const Addresses& one : *all)
      check_map(map_calls().set_access(one.first, one.bytes, &access, 1), "open pages to the device");
}

MappedWindows::~MappedWindows() { cudaDeviceSynchronize(); }

std::byte* MappedWindows::window(int rank) const {
  return reinterpret_cast<std::byte*>(impl_->windows[at(rank)].first);
}
std::byte* MappedWindows::output(int rank) const {
  return reinterpret_cast<std::byte*>(impl_->outputs[at(rank)].first);
}

}  // namespace weft
