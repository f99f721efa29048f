#include "weft/world/cuda/cuda_op.h"

#include <exception>
#include <thread>
#include <utility>

#include "weft/base/error.h"
#include "weft/world/cuda/cuda_state.h"
#include "weft/world/world_state.h"

namespace weft {

CudaOp::CudaOp(std::shared_ptr<State> state) : state_(std::move(state)) {}
CudaOp::CudaOp(CudaOp&&) noexcept = default;

CudaOp& CudaOp::operator=(CudaOp&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

CudaOp::~CudaOp() {
  if (state_ == nullptr) return;
  try {
    const UseDevice scope(state_->device);
    if (std::uncaught_exceptions() > 0)  // others may never come: this rank's kernels end without them
      std::visit([](const auto& executor) { executor->abandon(); }, state_->executor);
    state_->await();
  } catch (...) {  // a run that failed was told of before, or nobody has asked
  }
  const std::shared_ptr<WorldState> world = std::move(state_->world);
  world->retired->add(std::move(state_));
}

void CudaOp::run(const CudaOperands& operands, void* queue) {
  const UseDevice scope(state_->device);
  const Producer& p = state_->plan.producers[0];
  const auto need = [&](bool given, const char* what) {
    if (!given) bad_input("plan \"{}\" reads {}, but the run gives none", state_->plan.name, what);
  };
  need(operands.x != nullptr, "x");
  need(operands.w != nullptr || !p.has_w(), "w");
  if (auto* gemm = std::get_if<std::unique_ptr<CudaExecutor>>(&state_->executor))
    return (*gemm)->start({&operands, 1}, state_->queue_of(queue));
  if (auto* gemv = std::get_if<std::unique_ptr<CudaGemv>>(&state_->executor))
    return (*gemv)->start({&operands, 1}, state_->queue_of(queue));
  bad_input("plan \"{}\" pools embedding bags; run it with tables, indices and offsets", state_->plan.name);
}

void CudaOp::run(const BagOperands& bags, void* queue) {
  const UseDevice scope(state_->device);
  auto* executor = std::get_if<std::unique_ptr<CudaBags>>(&state_->executor);
  if (executor == nullptr) bad_input("plan \"{}\" has no embedding bags; run it with x and w", state_->plan.name);
  (*executor)->start({&bags, 1}, state_->queue_of(queue));
}

CudaExecutor& CudaOp::State::counted() {
  auto* found = std::get_if<std::unique_ptr<CudaExecutor>>(&executor);
  if (found == nullptr) bad_input("plan \"{}\" takes no counts; make it a gemm, or a copy", plan.name);
  return **found;
}

void CudaOp::limit(const Counts& counts) { state_->counted().limit({&counts, 1}); }
std::int32_t* CudaOp::counts() { return state_->counted().counts(state_->rank); }

const void* CudaOp::output() const {
  return std::visit([&](const auto& executor) -> const void* { return executor->output(state_->rank); },
                    state_->executor);
}

std::int64_t CudaOp::output_bytes() const { return state_->y_bytes; }

void CudaOp::copy_output(void* to, void* queue) { copy_output(to, 0, state_->y_bytes, queue); }

void CudaOp::copy_output(void* to, std::int64_t from, std::int64_t bytes, void* queue) {
  if (from < 0 || bytes < 0 || bytes > state_->y_bytes - from)
    bad_input("{} bytes from {} on are not in the output of plan \"{}\", which has {}", bytes, from, state_->plan.name,
              state_->y_bytes);
  copy(to, static_cast<const std::byte*>(output()) + from, bytes, queue);
}

void CudaOp::copy(void* to, const void* from, std::int64_t bytes, void* queue) {
  if (bytes == 0) return;
  const UseDevice scope(state_->device);
  copy_later(to, from, bytes, state_->queue_of(queue));
}

bool CudaOp::own_output() const {
  if (const auto* gemm = std::get_if<std::unique_ptr<CudaExecutor>>(&state_->executor)) return (*gemm)->own_output();
  return std::holds_alternative<std::unique_ptr<CudaGemv>>(state_->executor);
}

bool CudaOp::was_recorded() const { return state_->recorded; }

void CudaOp::finish() {
  if (state_->last_queue == nullptr && !state_->recorded) return;  // nothing runs; its queue may have gone
  const UseDevice scope(state_->device);
  state_->await();
  state_->last_queue = nullptr;
  std::visit([](const auto& executor) { executor->finish(); }, state_->executor);
}

// Runs in several queues would be at work at once, on one set of counters: so a new queue waits for the last. A graph
// can wait for nothing outside of it, and nobody outside for what is recorded.
void* CudaOp::State::queue_of(void* given) {
  if (in_step) await();
  void* next = given != nullptr ? given : queue->handle();
  const bool now_recorded = is_recorded(next);
  if (!now_recorded && last_queue != nullptr && next != last_queue) follow(next, last_queue);
  recorded = recorded || now_recorded;
  if (!now_recorded) last_queue = next;
  return next;
}

// Kernels that wait for a rank which has died would wait for their deadline.
void CudaOp::State::await() {
  if (last_queue == nullptr) return;
  constexpr int kSpins = 10000;
  for (int looks = 0; !has_ended(last_queue); ++looks) {
    try {
      world->transport->check();
    } catch (const Error&) {
      std::visit([](const auto& one) { one->abandon(); }, executor);
      throw;
    }
    if (looks > kSpins) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

const Plan& CudaOp::plan() const { return state_->plan; }

std::size_t CudaOp::bytes() const {
  return std::visit([](const auto& executor) { return num(executor->segment_bytes()); }, state_->executor);
}

}  // namespace weft
