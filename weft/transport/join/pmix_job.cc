#include "weft/transport/join/pmix_job.h"

#include "weft/base/error.h"

#if WEFT_PMIX
#include <pmix.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#endif

namespace weft {

#if WEFT_PMIX
namespace {

void require(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS)
    bad_input("PMIx cannot {}: {}; start the ranks with mpirun", what, PMIx_Error_string(status));
}

using Clock = std::chrono::steady_clock;
using PmixAnswer = std::pair<pmix_status_t, std::string>;
constexpr std::chrono::milliseconds kPmixRetry{20};
constexpr const char* kForgotten =
    "PMIx does not know which node this rank is on; call World::init before MPI_Finalize, and start ranks with mpirun";

// What a look-up that may be given up leaves for its answer.
struct Awaited {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<PmixAnswer> answer;
};

void take_answer(pmix_status_t status, pmix_value_t* value, void* data) {
  const std::unique_ptr<std::shared_ptr<Awaited>> awaited(static_cast<std::shared_ptr<Awaited>*>(data));
  const std::lock_guard lock((*awaited)->mutex);
  const bool text = status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_STRING;
  (*awaited)->answer = {status == PMIX_SUCCESS && !text ? PMIX_ERR_TYPE_MISMATCH : status,
                        text ? value->data.string : ""};
  (*awaited)->came.notify_all();
}

// Nothing where no answer comes in time.
std::optional<PmixAnswer> ask(pmix_proc_t owner, int rank, const std::string& key, Clock::time_point deadline) {
  owner.rank = static_cast<pmix_rank_t>(rank);
  auto awaited = std::make_shared<Awaited>();
  auto handed_over = std::make_unique<std::shared_ptr<Awaited>>(awaited);
  const pmix_status_t status = PMIx_Get_nb(&owner, key.c_str(), nullptr, 0, take_answer, handed_over.get());
  if (status != PMIX_SUCCESS) return PmixAnswer{status, {}};
  static_cast<void>(handed_over.release());  // take_answer's, whenever it is called
  std::unique_lock lock(awaited->mutex);
  awaited->came.wait_until(lock, deadline, [&] { return awaited->answer.has_value(); });
  return awaited->answer;
}

}  // namespace

struct PmixJob::State {
  pmix_proc_t self{};

  // Null where PMIx does not know, as after MPI_Finalize.
  pmix_value_t* own(const char* key) const {
    pmix_value_t* value = nullptr;
    return PMIx_Get(&self, key, nullptr, 0, &value) == PMIX_SUCCESS ? value : nullptr;
  }
};

bool PmixJob::available() { return true; }

PmixJob::PmixJob() : state_(std::make_unique<State>()) {
  require(PMIx_Init(&state_->self, nullptr, 0), "reach the launcher of this rank");
}

PmixJob::~PmixJob() { PMIx_Finalize(nullptr, 0); }

std::string PmixJob::node() const {
  pmix_value_t* value = state_->own(PMIX_NODEID);
  if (value == nullptr) bad_input("{}", kForgotten);
  const std::string text = fmt::format("node {}", value->data.uint32);
  PMIX_VALUE_RELEASE(value);
  return text;
}

std::string PmixJob::host() const {
  pmix_value_t* value = state_->own(PMIX_HOSTNAME);
  if (value == nullptr) bad_input("{}", kForgotten);
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
// launcher answers once rank 0 has published, or says at once that there is nothing yet.
std::string PmixJob::look_up(int rank, const std::string& key, std::chrono::nanoseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (true) {
    const auto answer = ask(state_->self, rank, key, deadline);
    if (answer && answer->first == PMIX_SUCCESS) return answer->second;
    if (answer && answer->first != PMIX_ERR_NOT_FOUND) require(answer->first, "look up where rank 0 listens");
    if (!answer || Clock::now() > deadline)
      throw Error(Code::deadline,
                  fmt::format("rank {} waited {:.1f} s for rank {} of this mpirun job to call World::init; WEFT_WAIT_S "
                              "sets the limit",
                              state_->self.rank, std::chrono::duration<double>(limit).count(), rank),
                  rank);
    std::this_thread::sleep_for(kPmixRetry);
  }
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
