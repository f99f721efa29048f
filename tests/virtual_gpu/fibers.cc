#include "tests/virtual_gpu/fibers.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__x86_64__)
// Keeps what a function must not change on the stack that is left, and goes on where the other was left. swapcontext
// would ask the kernel for the signals each time, half of the time of a run, and a sanitizer clears the stack there.
extern "C" void virtual_gpu_change(void** left, void* other);
asm(R"(
  .text
  .globl virtual_gpu_change
  .type virtual_gpu_change, @function
virtual_gpu_change:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size virtual_gpu_change, .-virtual_gpu_change
)");
#endif

namespace virtual_gpu {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStackBytes = 256 << 10;  // its frames are larger
#else
constexpr std::size_t kStackBytes = 96 << 10;
#endif
constexpr std::size_t kLookOften = 8;  // of so many turns one is for a fiber that looks for something

// Where a fiber, or the host's thread, goes on.
struct Context {
#if defined(__x86_64__)
  void* place = nullptr;  // on its stack
#else
  ucontext_t place;
#endif
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
  static void run();
};

namespace {

Fiber* begins = nullptr;  // that run() is called for

void change(Context& from, Context& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.bytes);
#endif
#if defined(__x86_64__)
  virtual_gpu_change(&from.place, to.place);
#else
  swapcontext(&from.place, &to.place);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// Of a stack that nobody has used: run() is called there.
void prepare(Context& context) {
#if defined(__x86_64__)
  constexpr std::size_t kKept = 6;  // registers
  auto* top = reinterpret_cast<void**>(static_cast<std::byte*>(const_cast<void*>(context.stack)) + context.bytes) - 2;
  *top = reinterpret_cast<void*>(&Fiber::run);  // to return to, at a multiple of 16
  context.place = top - kKept;
#else
  getcontext(&context.place);
  context.place.uc_stack = {const_cast<void*>(context.stack), 0, context.bytes};
  context.place.uc_link = nullptr;
  makecontext(&context.place, &Fiber::run, 0);
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
void Fiber::run() {
  Fiber* self = begins;
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
  prepare(made->context);
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
  begins = current_;
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
