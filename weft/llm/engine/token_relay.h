// Rank 0 tells the others tokens, as often as it likes. It may be waiting for a person meanwhile, and waits of a World
// have deadlines: so it says now and then that nothing has come yet. One small broadcast, whatever lies between ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace weft {

class Op;
class World;

class TokenRelay {
 public:
  explicit TokenRelay(World& world);  // collective
  ~TokenRelay();

  // Rank 0 alone. With one rank they do nothing.
  void tell(std::span<const int> tokens);
  void idle();  // nothing yet; at least every few seconds
  void end();   // no more come

  // All others: the tokens of the next tell(); none once the end is told.
  std::optional<std::vector<int>> hear();

 private:
  enum class Word { idle, part, last, end };
  void send(Word word, std::span<const int> tokens);

  std::unique_ptr<Op> op_;  // null: one rank
  bool tells_;
  std::vector<float> row_;
};

}  // namespace weft
