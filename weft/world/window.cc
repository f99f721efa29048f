// The pages of a window, and when they may be written. Both are read off the plan: the steps of its producer `window`
// say which rows go to which piece of which rank, and what to wait for before.
#include "weft/world/window.h"

#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/transport/local/local.h"
#include "weft/transport/local/memory.h"
#include "weft/world/world_state.h"

namespace weft {
namespace {

bool is_window(const Plan& plan, const Action& action) {
  return action.kind == ActionKind::step && plan.producers[action.producer].kind == ProducerKind::window &&
         action.lanes > 0;
}

// The smallest multiple of `unit`, not below `size`.
std::int64_t round_up(std::int64_t size, std::int64_t unit) { return ceil_div(size, unit) * unit; }

// Which sizes would make whole pages of every rank's rows: more rows for this n, more columns for this m; or, of sums,
// rows that lie farther apart.
std::string remedy(const Producer& p, int num_ranks, bool sums, std::int64_t page) {
  const std::int64_t in_a_page = page / size_of(p.y());
  const std::int64_t m = round_up(p.m, num_ranks * (in_a_page / std::gcd(in_a_page, p.n)));
  std::string said = fmt::format("use m = {}", m);
  if (p.m % num_ranks == 0)
    said += fmt::format(" or n = {}", round_up(p.n, in_a_page / std::gcd(in_a_page, p.m / num_ranks)));
  return sums ? fmt::format("{}, or ld = {}", said, window_ld(p.m, p.n, num_ranks, p.y())) : said;
}

// One step's rows: where they lie in the window, `ld` elements apart, and at which byte of which rank's segment.
struct Block {
  std::int64_t row, rows, ld;
  int rank;
  std::size_t offset, bytes;
};

Block block_of(const Plan& plan, const Program& program, const Action& action, const Memory& memory) {
  const auto targets = program.targets(action);
  if (targets.size() != 1 || action.sources.size() > 0 || action.finish)
    bad_input("plan \"{}\" has no window: {} does more than store its rows in one place", plan.name,
              describe(plan, program, num(&action - program.actions.data())));
  const Piece& to = targets[0];
  const BufferLayout& layout = memory.layouts[to.rank].buffers[to.buffer];
  const std::int64_t n = plan.producers[action.producer].columns(program.rank);
  const bool whole = layout.dims == 2 && to.box.lo[1] == 0 &&
                     (layout.shape[1] == n || (layout.shape[1] > n && layout.role == Role::internal));
  if (action.box.dims != 2 || action.box.size(1) != n || !whole)
    bad_input("plan \"{}\" has no window: whole rows of {} columns lie in rows of {} at rank {}; stack by rows",
              plan.name, n, layout.dims == 2 ? layout.shape[1] : 0, to.rank);
  const Dtype written = plan.producers[action.producer].y();
  if (layout.dtype != written || layout.block_rows > 0)
    bad_input("plan \"{}\" has no window: buffer \"{}\" is {} and {}; it must be {}, row by row", plan.name,
              plan.buffers[to.buffer].name, to_string(layout.dtype), layout.block_rows > 0 ? "packed" : "row by row",
              to_string(written));
  const std::int64_t rows = action.box.size(0);
  const std::int64_t ld = layout.shape[1];
  return {action.box.lo[0],
          rows,
          ld,
          to.rank,
          layout.offset + num(row_bytes(written, layout.element(to.box.lo))),
          num(row_bytes(written, rows * ld))};
}

void check_pages(const Plan& plan, const Block& block, const Producer& p, bool sums) {
  const std::size_t page = page_bytes();
  const std::size_t begin = num(row_bytes(p.y(), block.row * block.ld));
  if (begin % page == 0 && block.bytes % page == 0 && block.offset % page == 0) return;
  bad_input(
      "a window of {} x {} {} cannot be shared out over {} ranks in whole pages: rows {} to {}, for rank {}, are "
      "bytes {} to {}, and a page has {}; {}",
      p.m, p.n, p.y() == Dtype::f32 ? "floats" : to_string(p.y()), plan.num_ranks, block.row, block.row + block.rows,
      block.rank, begin, begin + block.bytes, page, remedy(p, plan.num_ranks, sums, static_cast<std::int64_t>(page)));
}

}  // namespace

Window::State::State(Op::State& op_in) : op(&op_in) {
  const Plan& plan = op->plan;
  const Expander expander(plan);
  program = expander.program(op->rank);
  for (std::int64_t c = 0; c < expander.num_counters(op->rank); ++c)
    totals.push_back(expander.counter_total(static_cast<int>(c), op->rank));
  int depth = 0;
  for (const Action& action : program.actions) {
    if (!is_window(plan, action)) continue;
    const Producer& p = plan.producers[action.producer];
    const Block block = block_of(plan, program, action, op->memory);
    const Buffer& target = plan.buffers[program.targets(action)[0].buffer];
    rows = p.m, cols = p.n, ld = block.ld, dtype = p.y();
    check_pages(plan, block, p, target.role == Role::internal);
    depth = std::max(depth, target.depth);
    for (const Wait& wait : program.of(action))
      if (wait.lag < 1)
        bad_input("plan \"{}\" has no window: {} waits for its own run, which starts when the rows have been written",
                  plan.name, describe(plan, program, num(&action - program.actions.data())));
  }
  if (depth == 0)
    bad_input("plan \"{}\" has no window: no row of it is the caller's to write; compile weft::window({{.m, .n}})",
              plan.name);
  for (int copy = 0; copy < depth; ++copy) map_rows(num(copy));
}

void Window::State::map_rows(std::size_t copy) {
  copies.push_back(reserve(num(row_bytes(dtype, rows * ld))));
  for (const Action& action : program.actions) {
    if (!is_window(op->plan, action)) continue;
    const Block block = block_of(op->plan, program, action, op->memory);
    const Piece& to = program.targets(action)[0];
    if (!op->world->transport->reaches(op->memory.world_rank[to.rank])) continue;  // scratch, from which run() sends
    const BufferLayout& layout = op->memory.layouts[to.rank].buffers[to.buffer];
    const std::size_t at = copy % num(layout.depth) * layout.copy_bytes + block.offset;
    map_again(op->memory.base[to.rank] + at, block.bytes,
              static_cast<std::byte*>(copies[copy].get()) + row_bytes(dtype, block.row * ld));
  }
}

// The waits of the coming run's steps, which the executor will find met when it gets there.
bool Window::State::may_write(const Wait** missing) const {
  const std::uint64_t run = op->executor->runs();
  for (const Action& action : program.actions) {
    if (!is_window(op->plan, action)) continue;
    for (const Wait& wait : program.of(action)) {
      if (run < static_cast<std::uint64_t>(wait.lag)) continue;
      const auto before = static_cast<std::uint32_t>(run - static_cast<std::uint64_t>(wait.lag));
      const std::uint32_t at = before * totals[wait.counter] + wait.at;
      // Acquire pairs with the owner's signal, so its reads precede our writes; seq_cst is what bell.h asks for.
      const std::uint32_t value = op->memory.counter(program.rank, wait.counter).load(std::memory_order_seq_cst);
      if (static_cast<std::int32_t>(value - at) >= 0) continue;
      *missing = &wait;
      return false;
    }
  }
  return true;
}

void Window::State::stuck(const Wait& wait, std::chrono::nanoseconds waited) const {
  const Patience& patience = op->world->patience;
  if (waited < std::min(patience.silence, patience.total)) return;
  const Expander expander(op->plan);
  int giver = program.rank;
  for (int rank = 0; rank < op->plan.num_ranks; ++rank)
    for (const Signal& signal : expander.program(rank).signals)
      if (signal.rank == program.rank && signal.counter == wait.counter) giver = rank;
  const Transport& transport = *op->world->transport;
  const int peer = op->memory.world_rank[giver];
  const bool dead = transport.silent_for(peer) > patience.silence;
  if (!dead && waited < patience.total) return;  // late, but alive
  throw Error(
      dead ? Code::peer_failed : Code::deadline,
      fmt::format("rank {} waited {:.1f} s to open its window of plan \"{}\": rank {} (host {}) has not raised {}, "
                  "which says that it is done with the rows of the run before",
                  transport.rank(), std::chrono::duration<double>(waited).count(), op->plan.name, peer,
                  transport.host(peer), expander.counter_name(wait.counter, program.rank)),
      peer, transport.host(peer));
}

void* Window::State::open(Dtype as) {
  if (op == nullptr) bad_input("the op of this window is gone; keep it as long as its window is opened");
  if (as != dtype)
    bad_input("the window of plan \"{}\" is written in {}; open it with {}()", op->plan.name, to_string(dtype),
              dtype == Dtype::bf16 ? "open_narrow" : "open");
  if (!is_open) {
    Transport& transport = *op->world->transport;
    try {
      op->executor->finish();  // everything of a run precedes everything of the next, on a rank
      const Wait* missing = nullptr;
      std::int64_t due = Transit::kNothing;
      const auto ready = [&] {
        if (may_write(&missing)) return true;
        due = Transit::kNothing;
        for (CpuExecutor* executor : op->world->live) due = std::min(due, executor->poll());
        return may_write(&missing);
      };
      wait_until(
          transport, op->world->patience, ready, [&](std::chrono::nanoseconds waited) { stuck(*missing, waited); },
          [&] { return sleep_until(due); });
    } catch (...) {
      abort_with_current_exception(transport);
      throw;
    }
    is_open = true;
  }
  return rows_of_run();
}

void* Window::State::rows_of_run() const { return copies[op->executor->runs() % copies.size()].get(); }

void Window::State::close() {
  if (!is_open)
    bad_input("the window of plan \"{}\" is not open; call open() and write the rows before run()", op->plan.name);
  is_open = false;
}

Window::Window(std::shared_ptr<State> state) : state_(std::move(state)) {}

float* Window::open() { return static_cast<float*>(state_->open(Dtype::f32)); }
bf16* Window::open_narrow() { return static_cast<bf16*>(state_->open(Dtype::bf16)); }
Matrix Window::close() {
  if (state_->op == nullptr) bad_input("the op of this window is gone; keep it as long as its window is used");
  if (state_->dtype != Dtype::f32)
    bad_input("the window of plan \"{}\" makes {}; close it with op.run() and op.view(\"y\")", state_->op->plan.name,
              to_string(state_->dtype));
  const Inputs none;
  state_->op->run(std::span(&none, 1), {});
  return state_->op->read("y");
}

std::int64_t Window::rows() const { return state_->rows; }
std::int64_t Window::cols() const { return state_->cols; }
std::int64_t Window::ld() const { return state_->ld; }
Dtype Window::dtype() const { return state_->dtype; }

Window World::window(Op& op) {
  if (state_->hooks != nullptr) bad_input("hooks see every store, but a window's are the caller's own; use run(x)");
  auto& window = op.state_->window;
  if (window == nullptr) window = std::make_shared<Window::State>(*op.state_);
  return Window(window);
}

}  // namespace weft
