// One context and one worker of UCX, made with the wire's settings, and the few calls on them that have nothing to do
// with messages. Only for builds with UCX.
#pragma once

#include <ucp/api/ucp.h>

#include <string>
#include <string_view>

namespace weft {

struct UcxWorkerOptions {
  std::string device;  // "": any
  bool remote_writes = false;
  bool tcp = false;  // may be used
};

class UcxWorker {
 public:
  // Throws bad_input where the device or the transports asked for are not there.
  explicit UcxWorker(const UcxWorkerOptions& options);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h get() const { return worker_; }
  ucp_context_h context() const { return context_; }
  std::string address() const;
  int descriptor() const { return descriptor_; }  // readable when there is something to progress, once armed

  // `failed` is called from within ucp_worker_progress and may only take a note.
  ucp_ep_h connect(std::string_view address, ucp_err_handler_cb_t failed, void* arg) const;

  // True where the descriptor may be slept on; false where there is more to progress first.
  bool arm() const { return ucp_worker_arm(worker_) != UCS_ERR_BUSY; }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
};

}  // namespace weft
