// The threads of a virtual GPU: fibers, of which one thread of the host runs one at a time, in an order drawn from a
// seed. A fiber runs until it waits; so between two waits nothing of another fiber happens, and which of them comes
// next is drawn anew each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace virtual_gpu {

struct Fiber;

class Fibers {
 public:
  explicit Fibers(std::uint64_t seed);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // `owner` is what current_owner() gives while the fiber runs.
  void spawn(std::function<void()> body, void* owner);
  // Runs one of those that are ready, or, where there is none and sometimes besides, one that looks for something.
  // Returns whether one was ready.
  bool step();
  bool empty() const { return alive_ == 0; }
  std::size_t draw(std::size_t count) { return random_() % count; }

  // Within a fiber.
  static void* current_owner() { return owner_; }
  void yield();       // others may come first
  void look_again();  // it looks for something that others do: they come first
  Fiber* self() const { return current_; }
  void block();  // until somebody wakes it
  void wake(Fiber* fiber);

 private:
  friend struct Fiber;
  Fiber* new_fiber();
  void leave();  // to whoever called step()

  static void* owner_;
  std::minstd_rand random_;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> ready_, looking_, ended_;
  Fiber* current_ = nullptr;
  std::size_t alive_ = 0;
  void* host_;  // its context
};

// Where a number of fibers wait for one another, again and again.
class Meeting {
 public:
  void meet(Fibers& fibers, int expected);

 private:
  int arrived_ = 0;
  std::vector<Fiber*> waiting_;
};

}  // namespace virtual_gpu
