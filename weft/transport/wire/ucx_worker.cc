#ifdef WEFT_UCX
#include "weft/transport/wire/ucx_worker.h"

#include <net/if.h>

#include <chrono>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/os/net_device.h"
#include "weft/transport/join/net_address.h"
#include "weft/transport/local/own_thread.h"
#include "weft/transport/wire/ucx_settings.h"
#include "weft/transport/wire/wire_kind.h"

namespace weft {
namespace {

constexpr std::chrono::seconds kUcxBringUp{2};  // for a device that was brought up just now

void must(ucs_status_t status, const char* what) {
  if (status != UCS_OK) fail(Code::io, "UCX cannot {}: {}", what, ucs_status_string(status));
}

[[noreturn]] void refuse(std::string_view device, const char* why) {
  bad_input("UCX cannot use network device \"{}\": {}; name one that ucx_info -d lists",
            device.empty() ? "any" : device, why);
}

// TCP settings have their prefix in code from 1.14 on.
bool settings_are_prefixed() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return major > 1 || minor > 13;
}

ucp_context_h make_context(const UcxWorkerOptions& options) {
  const std::string& device = options.device;
  // UCX goes on without a device that is not there. Names with a port, as mlx5_0:1, are not the kernel's to judge.
  const bool named = !device.empty() && device.find(':') == device.npos && std::getenv("UCX_NET_DEVICES") == nullptr;
  if (named && if_nametoindex(device.c_str()) == 0) refuse(device, "there is no such device");
  if (named && !wait_until_running(device, kUcxBringUp)) refuse(device, "it is down");
  ucp_config_t* config = nullptr;
  must(ucp_config_read(nullptr, nullptr, &config), "read its settings");
  ucs_status_t status = UCS_OK;
  std::string refused;
  for (const auto& [name, value] : ucx_settings({device, options.tcp}, settings_are_prefixed())) {
    status = ucp_config_modify(config, name.c_str(), value.c_str());
    if (status == UCS_OK) continue;
    refused = name + "=" + value;
    break;
  }
  ucp_context_h context = nullptr;
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP | (options.remote_writes ? UCP_FEATURE_RMA : 0);
    params.mt_workers_shared = 0;
    status = ucp_init(&params, config, &context);
  }
  ucp_config_release(config);
  if (!refused.empty()) fail(Code::internal, "UCX refuses the setting {}: {}", refused, ucs_status_string(status));
  if (status != UCS_OK) refuse(device, ucs_status_string(status));
  return context;
}

}  // namespace

UcxWorker::UcxWorker(const UcxWorkerOptions& options) {
  const SignalsBlocked blocked;  // UCX starts a thread of its own
  if (!options.tcp && !has_rdma_device())
    bad_input(
        "UCX has no RDMA device here, and its TCP port lets anyone write a rank's memory; use --link tls, or --link "
        "ucx,trusted where everybody on the network is trusted");
  context_ = make_context(options);
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;  // sends to a dead peer may be under way when the wire goes
  ucs_status_t status = ucp_worker_create(context_, &params, &worker_);
  if (status == UCS_OK) status = ucp_worker_get_efd(worker_, &descriptor_);
  if (status == UCS_OK) return;
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
  refuse(options.device, ucs_status_string(status));
}

UcxWorker::~UcxWorker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

std::string UcxWorker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  must(ucp_worker_get_address(worker_, &address, &bytes), "tell its address");
  std::string copy(reinterpret_cast<const char*>(address), bytes);
  ucp_worker_release_address(worker_, address);
  return copy;
}

ucp_ep_h UcxWorker::connect(std::string_view address, ucp_err_handler_cb_t failed, void* arg) const {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {failed, arg};
  ucp_ep_h endpoint = nullptr;
  must(ucp_ep_create(worker_, &params, &endpoint), "reach a peer");
  return endpoint;
}

}  // namespace weft
#endif
