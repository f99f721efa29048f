// A text that was asked for, between the thread of the server that waits for it and the rank that makes it; and the
// queue in which requests wait for a sequence of the engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "weft/llm/engine/generate.h"
#include "weft/serve/serve_counts.h"
#include "weft/serve/text_request.h"

namespace weft {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, that did not go through the model again
  std::int64_t completion_tokens = 0;
};

class Answer {
 public:
  explicit Answer(TextRequest request) : request_(std::move(request)) {}

  const TextRequest& request() const { return request_; }

  // By the rank that makes it.
  void add(std::string_view text);
  void end(Ending ending, const Usage& usage);
  void fail(std::string sentence);
  bool given_up() const;

  // By the thread that waits for it.
  struct News {
    std::string text;  // since the last wait()
    bool ended = false;
    std::optional<Ending> ending;  // none where it has failed
    std::string failure;
    Usage usage;
  };
  News wait(std::chrono::milliseconds patience);  // until there is something, or patience is over
  void give_up();                                 // nobody reads it any more

 private:
  void tell_end(const News& end);

  const TextRequest request_;
  mutable std::mutex mutex_;
  std::condition_variable came_;
  News news_;
  bool given_up_ = false;
};

// Requests that were given up are in it no more.
class AnswerQueue {
 public:
  // The counts outlive it.
  AnswerQueue(std::size_t most, ServeCounts& counts) : most_(most), counts_(counts) {}

  enum class Pushed { waits, full, closed };
  Pushed push(std::shared_ptr<Answer> answer);
  std::shared_ptr<Answer> pop();                  // the oldest; null where none waits
  bool wait(std::chrono::milliseconds patience);  // whether one waits
  void close();                                   // no more are taken; those that wait stay
  void fail_all(const std::string& sentence);     // closes, too
  std::size_t size();

 private:
  void drop_given_up();

  const std::size_t most_;
  ServeCounts& counts_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::shared_ptr<Answer>> waiting_;
  bool closed_ = false;
};

}  // namespace weft
