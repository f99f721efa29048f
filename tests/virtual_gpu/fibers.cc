#include "tests/virtual_gpu/fibers.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace virtual_gpu {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStackBytes = 512 << 10;  // its frames are larger
#else
constexpr std::size_t kStackBytes = 96 << 10;
#endif
constexpr std::size_t kLookOften = 8;  // of so many turns one is for a fiber that looks for something

// Where a fiber, or the host's thread, goes on.
struct Context {
  ucontext_t machine;  // where it begins
  jmp_buf place;       // and goes on
  bool begun = false;
  void* fake_stack = nullptr;  // of the address sanitizer
  const void* stack = nullptr;
  std::size_t bytes = 0;
};

struct Fiber {
  Context context;
  std::function<void()> body;
  void* owner = nullptr;
  Fibers* fibers = nullptr;
  void* stack = nullptr;
  ~Fiber() { munmap(stack, kStackBytes); }
  static void run(unsigned high, unsigned low);
};

namespace {

// A jump, where swapcontext would ask the kernel for the signals: half of the time of a run. The sanitizer knows only
// that.
void change(Context& from, Context& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.bytes);
  swapcontext(&from.machine, &to.machine);
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#else
  if (_setjmp(from.place) != 0) return;
  from.begun = true;
  if (to.begun) _longjmp(to.place, 1);
  setcontext(&to.machine);
#endif
}

Fiber* take(std::vector<Fiber*>& from, std::size_t index) {
  std::swap(from[index], from.back());
  Fiber* out = from.back();
  from.pop_back();
  return out;
}

}  // namespace

void* Fibers::owner_ = nullptr;

Fibers::Fibers(std::uint64_t seed) : random_(static_cast<unsigned>(seed)), host_(new Context) {}
Fibers::~Fibers() { delete static_cast<Context*>(host_); }

// A fiber that has ended is used for the next that is asked for.
void Fiber::run(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
  auto& host = *static_cast<Context*>(self->fibers->host_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &host.stack, &host.bytes);
#endif
  for (;;) {
    self->body();
    self->body = nullptr;
    self->fibers->ended_.push_back(self);
    --self->fibers->alive_;
    change(self->context, host);
  }
}

Fiber* Fibers::new_fiber() {
  if (!ended_.empty()) return take(ended_, ended_.size() - 1);
  all_.push_back(std::make_unique<Fiber>());
  Fiber* made = all_.back().get();
  made->fibers = this;
  made->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made->stack == MAP_FAILED) std::abort();
  made->context.stack = made->stack, made->context.bytes = kStackBytes;
  getcontext(&made->context.machine);
  made->context.machine.uc_stack = {made->stack, 0, kStackBytes};
  made->context.machine.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(made);
  makecontext(&made->context.machine, reinterpret_cast<void (*)()>(&Fiber::run), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  return made;
}

void Fibers::spawn(std::function<void()> body, void* owner) {
  Fiber* made = new_fiber();
  made->body = std::move(body), made->owner = owner;
  ++alive_;
  ready_.push_back(made);
}

bool Fibers::step() {
  const bool any = !ready_.empty();
  if (!any && looking_.empty()) return false;
  const bool looks = !any || (!looking_.empty() && draw(kLookOften) == 0);
  std::vector<Fiber*>& from = looks ? looking_ : ready_;
  current_ = take(from, draw(from.size()));
  owner_ = current_->owner;
  change(*static_cast<Context*>(host_), current_->context);
  current_ = nullptr;
  return any;
}

void Fibers::leave() { change(current_->context, *static_cast<Context*>(host_)); }

void Fibers::yield() {
  ready_.push_back(current_);
  leave();
}
void Fibers::look_again() {
  looking_.push_back(current_);
  leave();
}
void Fibers::block() { leave(); }
void Fibers::wake(Fiber* fiber) { ready_.push_back(fiber); }

void Meeting::meet(Fibers& fibers, int expected) {
  if (++arrived_ < expected) {
    waiting_.push_back(fibers.self());
    return fibers.block();
  }
  arrived_ = 0;
  for (Fiber* fiber : std::exchange(waiting_, {})) fibers.wake(fiber);
}

}  // namespace virtual_gpu
