// Several texts that grow at once, given out one after another: the first that has not ended as it grows, those behind
// it when their turn comes. For a terminal or a pipe, where texts that grow side by side could not be told apart.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class TextsInTurn {
 public:
  using Out = std::function<void(std::size_t which, std::string_view text)>;
  TextsInTurn(std::size_t count, Out out) : out_(std::move(out)), texts_(count) {}

  void add(std::size_t which, std::string_view text) {
    if (which == turn_)
      out_(which, text);
    else
      texts_[which].waiting += text;
  }

  // Nothing more comes for this one: the turn goes to the first behind it that still grows.
  void end(std::size_t which) {
    texts_[which].ended = true;
    while (turn_ < texts_.size() && texts_[turn_].ended)
      if (++turn_ < texts_.size() && !texts_[turn_].waiting.empty())
        out_(turn_, std::exchange(texts_[turn_].waiting, {}));
  }

 private:
  struct Text {
    std::string waiting;
    bool ended = false;
  };

  Out out_;
  std::vector<Text> texts_;
  std::size_t turn_ = 0;
};

}  // namespace weft
