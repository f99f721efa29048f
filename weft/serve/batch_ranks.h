// The ranks behind a server. Rank 0 has the clients: it admits what waits, composes a pass, tells it to the others and
// runs it with them, until it is to stop.
#pragma once

#include <functional>

#include "weft/llm/engine/token_relay.h"
#include "weft/serve/answer.h"
#include "weft/serve/batch.h"

namespace weft {

class Engine;
class World;

class BatchRanks {
 public:
  // Collective. The engine outlives it; all of its sequences are its own.
  BatchRanks(World& world, Engine& engine);

  // Rank 0: until `stops` says so; then the queue is closed, and what it has and what is being made is made to its end.
  // Whatever is thrown has been told to all who wait.
  void lead(Batch& batch, AnswerQueue& queue, const std::function<bool()>& stops);
  void end() { relay_.end(); }  // rank 0, where it cannot lead
  void follow();                // the others

 private:
  bool step(Batch& batch, AnswerQueue& queue);  // false: there was nothing to do

  Engine& engine_;
  TokenRelay relay_;
};

}  // namespace weft
