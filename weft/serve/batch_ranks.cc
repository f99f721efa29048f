#include "weft/serve/batch_ranks.h"

#include <chrono>
#include <exception>

#include "weft/llm/engine/engine.h"
#include "weft/serve/pass.h"

namespace weft {
namespace {

constexpr std::chrono::milliseconds kIdle{200};  // how often the others hear that nobody asks

}  // namespace

BatchRanks::BatchRanks(World& world, Engine& engine) : engine_(engine), relay_(world) {}

bool BatchRanks::step(Batch& batch, AnswerQueue& queue) {
  while (batch.has_room()) {
    auto answer = queue.pop();
    if (answer == nullptr) break;
    batch.admit(std::move(answer));
  }
  if (batch.is_idle()) return false;
  const Pass pass = batch.compose();
  relay_.tell(pass.words());
  batch.take(run(engine_, pass));
  return true;
}

void BatchRanks::lead(Batch& batch, AnswerQueue& queue, const std::function<bool()>& stops) {
  try {
    while (true) {
      const bool ends = stops();
      if (ends) queue.close();
      if (step(batch, queue)) continue;
      if (ends) break;
      if (!queue.wait(kIdle)) relay_.idle();
    }
    relay_.end();
  } catch (const std::exception& error) {
    queue.fail_all(error.what());
    batch.fail_all(error.what());
    throw;
  }
}

void BatchRanks::follow() {
  while (const auto words = relay_.hear()) run(engine_, Pass::of_words(*words));
}

}  // namespace weft
