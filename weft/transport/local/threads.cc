#include "weft/transport/local/threads.h"

#include <array>
#include <exception>
#include <numeric>
#include <string>
#include <thread>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/local.h"
#include "weft/transport/local/memory.h"
#include "weft/transport/local/wait.h"

namespace weft {
namespace {

struct Post {
  std::string text;
  std::shared_ptr<void> memory;
};

// What the ranks of one group share. Set-up call k uses half k % 2: nobody can be in call k + 2 before
// everybody has entered call k + 1, so a half is read to the end before it is written again.
struct Group {
  explicit Group(int num_ranks)
      : control(Control::create(map_anonymous(Control::bytes_for(num_ranks)), num_ranks)),
        everyone(num(num_ranks)),
        halves{std::vector<Post>(num_ranks), std::vector<Post>(num_ranks)} {
    std::iota(everyone.begin(), everyone.end(), 0);
  }

  Control control;
  std::vector<int> everyone;
  std::array<std::vector<Post>, 2> halves;
};

class ThreadTransport final : public LocalTransport {
 public:
  ThreadTransport(int rank, std::shared_ptr<Group> group)
      : LocalTransport(rank, group->control, group->control.num_ranks()), group_(std::move(group)) {}

  std::string_view name() const override { return "threads"; }

  std::chrono::nanoseconds silent_for(int) const override { return {}; }

 private:
  std::vector<std::string> gather(const std::string& mine) override {
    std::vector<std::string> texts;
    for (Post& post : exchange({mine, nullptr}, "a set-up call")) texts.push_back(std::move(post.text));
    return texts;
  }

  std::vector<std::shared_ptr<void>> share(std::uint32_t, const std::vector<std::size_t>& bytes) override {
    Post mine;
    try {
      mine.memory = map_anonymous(bytes[rank()]);
    } catch (const Error& error) {
      mine.text = error.what();  // goes to all ranks, which then fail alike
    }
    std::vector<std::shared_ptr<void>> memory;
    for (Post& post : exchange(std::move(mine), "allocate")) {
      const int owner = int_size(memory);
      if (!post.memory) throw Error(Code::no_memory, fmt::format("rank {}: {}", owner, post.text), owner, host(owner));
      memory.push_back(std::move(post.memory));
    }
    // Once all have read their copies, the group lets go: the memory is to live as long as its segments.
    Post& mine_posted = group_->halves[(calls_ - 1) % 2][rank()];
    exchange({}, "allocate");
    mine_posted.memory.reset();
    return memory;
  }

  std::vector<Post> exchange(Post mine, std::string_view call) {
    auto& half = group_->halves[calls_++ % 2];
    half[rank()] = std::move(mine);
    const std::uint32_t at = arrive();
    for (int peer = 0; peer < size(); ++peer) ring_if_asleep(bell(peer));
    wait_until(
        *this, patience(), [&] { return all_arrived(at); },
        [&](std::chrono::nanoseconds waited) { keep_waiting(call, at, waited, group_->everyone); });
    return half;
  }

  std::shared_ptr<Group> group_;
  std::uint32_t calls_ = 0;
};

std::shared_ptr<Group> make_group(int num_ranks) {
  if (num_ranks < 1) bad_input("cannot run {} ranks; use at least 1", num_ranks);
  return std::make_shared<Group>(num_ranks);
}

std::vector<std::unique_ptr<Transport>> make_transports(const std::shared_ptr<Group>& group) {
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < group->control.num_ranks(); ++rank)
    transports.push_back(std::make_unique<ThreadTransport>(rank, group));
  return transports;
}

void run_rank(Transport& transport, const std::function<void(Transport&)>& body, std::exception_ptr& failure) {
  try {
    body(transport);
  } catch (...) {
    failure = std::current_exception();
    abort_with_current_exception(transport);
  }
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(int num_ranks) {
  return make_transports(make_group(num_ranks));
}

void run_thread_ranks(int num_ranks, const std::function<void(Transport&)>& body) {
  const auto group = make_group(num_ranks);
  auto transports = make_transports(group);
  std::vector<std::exception_ptr> failures(num_ranks);
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < num_ranks; ++rank)
      threads.emplace_back([&, rank] {
        // The rank leaves with its thread, so that peers which still wait for it learn that it has ended.
        const auto transport = std::move(transports[rank]);
        run_rank(*transport, body, failures[rank]);
      });
  } catch (const std::exception& error) {
    group->control.report(num_ranks, int_size(threads), error.what());
  }
  for (std::thread& thread : threads) thread.join();
  const auto first = group->control.first_failure();
  if (first && first->reporter == num_ranks)
    fail(Code::no_memory, "cannot start a thread for rank {}: {}", first->failed_rank, first->reason);
  if (first && failures[first->reporter]) std::rethrow_exception(failures[first->reporter]);
  for (const auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace weft
