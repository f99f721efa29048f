#include "weft/serve/answer.h"

#include <utility>

namespace weft {

void Answer::add(std::string_view text) {
  if (text.empty()) return;
  const std::lock_guard lock(mutex_);
  news_.text += text;
  came_.notify_one();
}

void Answer::end(Ending ending, const Usage& usage) { tell_end({.ended = true, .ending = ending, .usage = usage}); }

void Answer::fail(std::string sentence) { tell_end({.ended = true, .failure = std::move(sentence)}); }

void Answer::tell_end(const News& end) {
  const std::lock_guard lock(mutex_);
  std::string text = std::move(news_.text);
  news_ = end;
  news_.text = std::move(text);
  came_.notify_one();
}

bool Answer::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

Answer::News Answer::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  came_.wait_for(lock, patience, [&] { return news_.ended || !news_.text.empty(); });
  News out = news_;
  news_.text.clear();
  return out;
}

void Answer::give_up() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
}

void AnswerQueue::drop_given_up() {
  counts_.given_up += std::erase_if(waiting_, [](const auto& answer) { return answer->given_up(); });
}

AnswerQueue::Pushed AnswerQueue::push(std::shared_ptr<Answer> answer) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Pushed::closed;
  drop_given_up();
  if (waiting_.size() >= most_) return Pushed::full;
  waiting_.push_back(std::move(answer));
  came_.notify_one();
  return Pushed::waits;
}

std::shared_ptr<Answer> AnswerQueue::pop() {
  const std::lock_guard lock(mutex_);
  drop_given_up();
  if (waiting_.empty()) return nullptr;
  std::shared_ptr<Answer> out = std::move(waiting_.front());
  waiting_.pop_front();
  return out;
}

bool AnswerQueue::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return came_.wait_for(lock, patience, [&] { return !waiting_.empty(); });
}

void AnswerQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

void AnswerQueue::fail_all(const std::string& sentence) {
  close();
  while (const auto answer = pop()) answer->fail(sentence);
}

std::size_t AnswerQueue::size() {
  const std::lock_guard lock(mutex_);
  drop_given_up();
  return waiting_.size();
}

}  // namespace weft
