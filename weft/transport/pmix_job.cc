#include "weft/transport/pmix_job.h"

#include "weft/base/error.h"

#if WEFT_PMIX
#include <pmix.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#endif

namespace weft {

#if WEFT_PMIX
namespace {

void require(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS)
    bad_input("PMIx cannot {}: {}; start the ranks with mpirun", what, PMIx_Error_string(status));
}

// What a look-up that may be given up leaves for its answer.
struct Awaited {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<std::pair<pmix_status_t, std::string>> answer;
};

void take_answer(pmix_status_t status, pmix_value_t* value, void* data) {
  const std::unique_ptr<std::shared_ptr<Awaited>> awaited(static_cast<std::shared_ptr<Awaited>*>(data));
  const std::lock_guard lock((*awaited)->mutex);
  const bool text = status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_STRING;
  (*awaited)->answer = {status == PMIX_SUCCESS && !text ? PMIX_ERR_TYPE_MISMATCH : status,
                        text ? value->data.string : ""};
  (*awaited)->came.notify_all();
}

}  // namespace

struct PmixJob::State {
  pmix_proc_t self{};

  pmix_value_t* own(const char* key) const {
    pmix_value_t* value = nullptr;
    require(PMIx_Get(&self, key, nullptr, 0, &value), key);
    return value;
  }
};

bool PmixJob::available() { return true; }

PmixJob::PmixJob() : state_(std::make_unique<State>()) {
  require(PMIx_Init(&state_->self, nullptr, 0), "reach the launcher of this rank");
}

PmixJob::~PmixJob() { PMIx_Finalize(nullptr, 0); }

std::string PmixJob::node() const {
  pmix_value_t* value = state_->own(PMIX_NODEID);
  const std::string text = fmt::format("node {}", value->data.uint32);
  PMIX_VALUE_RELEASE(value);
  return text;
}

std::string PmixJob::host() const {
  pmix_value_t* value = state_->own(PMIX_HOSTNAME);
  const std::string text = value->type == PMIX_STRING ? value->data.string : "unknown";
  PMIX_VALUE_RELEASE(value);
  return text;
}

void PmixJob::publish(const std::string& key, const std::string& text) {
  pmix_value_t value{};
  std::string copy = text;
  value.type = PMIX_STRING;
  value.data.string = copy.data();
  require(PMIx_Put(PMIX_GLOBAL, key.c_str(), &value), "publish where rank 0 listens");
  require(PMIx_Commit(), "publish where rank 0 listens");
}

// PMIX_TIMEOUT holds on one node only (4.2 under Open MPI 4.1), so the deadline is ours. No fence is needed: the
// launcher answers once rank 0 has published.
std::string PmixJob::look_up(int rank, const std::string& key, std::chrono::nanoseconds limit) {
  pmix_proc_t owner = state_->self;
  owner.rank = static_cast<pmix_rank_t>(rank);
  auto awaited = std::make_shared<Awaited>();
  auto handed_over = std::make_unique<std::shared_ptr<Awaited>>(awaited);
  require(PMIx_Get_nb(&owner, key.c_str(), nullptr, 0, take_answer, handed_over.get()), "look up where rank 0 listens");
  static_cast<void>(handed_over.release());  // take_answer's, whenever it is called
  std::unique_lock lock(awaited->mutex);
  if (!awaited->came.wait_for(lock, limit, [&] { return awaited->answer.has_value(); }))
    throw Error(Code::deadline,
                fmt::format("rank {} waited {:.1f} s for rank {} of this mpirun job to call World::init; WEFT_WAIT_S "
                            "sets the limit",
                            state_->self.rank, std::chrono::duration<double>(limit).count(), rank),
                rank);
  require(awaited->answer->first, "look up where rank 0 listens");
  return awaited->answer->second;
}

#else

struct PmixJob::State {};

bool PmixJob::available() { return false; }
PmixJob::PmixJob() { bad_input("this build of Weft has no PMIx; install libpmix-dev and build again"); }
PmixJob::~PmixJob() = default;
std::string PmixJob::node() const { return {}; }
std::string PmixJob::host() const { return {}; }
void PmixJob::publish(const std::string&, const std::string&) {}
std::string PmixJob::look_up(int, const std::string&, std::chrono::nanoseconds) { return {}; }

#endif

}  // namespace weft
