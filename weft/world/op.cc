#include "weft/world/op.h"

#include <algorithm>
#include <exception>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/table/embedding_bag.h"
#include "weft/transport/local/local.h"
#include "weft/world/world_state.h"

namespace weft {
namespace {

void need(bool given, const char* what, const Plan& plan) {
  if (!given) bad_input("plan \"{}\" reads {}, but the run gives none", plan.name, what);
}

constexpr std::size_t kRecordLines = 2048;

void tell_of(const Op::State& op, Error& error) {
  abort_with_current_exception(*op.world->transport);
  error.attach_record(op.executor->last_events(op.world->birth, kRecordLines));
}

bool is_written(const Producer& producer, const Inputs& inputs) {
  return producer.kind == ProducerKind::window && inputs.rows(producer.x()) == nullptr;
}

// An index outside its table would read foreign memory: a pass over the indices costs far less than the lookups.
void check_bags(const Producer& p, int rank, const Inputs& in, std::int64_t samples) {
  const auto tables = num(p.columns(rank) / p.dim);
  if (in.tables.size() != tables || in.indices.size() != tables || in.offsets.size() != tables)
    bad_input("embedding_bag has {} tables on this rank, but the run gives {} tables, {} indices, {} offsets", tables,
              in.tables.size(), in.indices.size(), in.offsets.size());
  for (std::size_t t = 0; t < tables; ++t) {
    const std::span offsets(in.offsets[t], num(samples) + 1);
    validate_indices(fmt::format("{}", t), p.rows, {in.indices[t], num(std::max<std::int64_t>(offsets.back(), 0))},
                     offsets);
  }
}

}  // namespace

// Peers may still wait for triggers of the last run: they are fired before the op goes, unless the rank is failing.
Op::State::~State() {
  if (executor != nullptr && !executor->finished() && std::uncaught_exceptions() == 0) {
    try {
      executor->finish();
    } catch (...) {
      abort_with_current_exception(*world->transport);
    }
  }
  if (world->trace && executor != nullptr) executor->add_slices(world->birth, &world->trace->text());
  if (window != nullptr) window->op = nullptr;
  auto& live = world->live;
  live.erase(std::remove(live.begin(), live.end(), executor.get()), live.end());
}

Op::Op(std::unique_ptr<State> state) : state_(std::move(state)) {}
Op::Op(Op&&) noexcept = default;
Op& Op::operator=(Op&&) noexcept = default;
Op::~Op() = default;

void Op::run(const float* x, const void* w) {
  Inputs inputs;
  inputs.x = x;
  inputs.w = w;
  run(inputs);
}

void Op::run() { run(Inputs{}); }

void Op::run(const Inputs& inputs, const Counts& counts) { run(std::span(&inputs, 1), counts); }

void Op::run(std::span<const Inputs> inputs, const Counts& counts) { state_->run(inputs, counts); }

void Op::run(const Inputs& inputs, std::span<void* const> outputs, const Counts& counts) {
  state_->run(std::span(&inputs, 1), counts, outputs);
}

bool Op::own_output(std::string_view name) const { return state_->is_own(state_->plan.buffer(name)); }

void Op::run(std::span<const void* const> inputs) { state_->run(inputs, State::Return::when_inputs_may_change); }

void Op::post(std::span<const void* const> inputs) { state_->run(inputs, State::Return::at_once); }

// Whether all of a producer's steps skip rows beyond the count of rows: only then are those not looked up.
bool Op::State::limits_rows(std::size_t producer) const {
  return std::all_of(plan.rules.begin(), plan.rules.end(), [&](const Rule& rule) {
    return rule.kind != ActionKind::step || num(rule.producer) != producer || rule.limit == Limit::rows;
  });
}

namespace {

void check_blocks(const Producer& p, const Inputs& in, const Plan& plan) {
  const std::int64_t values = block_shape(p.weight).values;
  if (in.w_first < 0 || in.w_first >= values || in.w_ld % values != 0 || in.w_ld < in.w_first + p.k)
    bad_input(
        "plan \"{}\" reads {} columns of {} weights, but w_first is {} and w_ld {}; give rows of whole blocks of {}",
        plan.name, p.k, to_string(p.weight), in.w_first, in.w_ld, values);
}

}  // namespace

void Op::State::check(std::span<const Inputs> inputs, const Counts& counts) const {
  if (inputs.size() != plan.producers.size())
    bad_input("plan \"{}\" has {} producers, but the run gives inputs for {}", plan.name, plan.producers.size(),
              inputs.size());
  if (!counts.peers.empty() && counts.peers.size() != num(plan.num_ranks))
    bad_input("counts are given for {} ranks, but the group has {}", counts.peers.size(), plan.num_ranks);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Producer& p = plan.producers[i];
    const bool weights = p.is_product();
    const bool written = is_written(p, inputs[i]);
    if (reads[i].x && !written && p.kind != ProducerKind::embedding_bag)
      need(inputs[i].rows(p.x()) != nullptr, p.x() == Dtype::bf16 ? "narrow_x, its x in bf16," : "x", plan);
    if (!reads[i].any) continue;
    if (written && window == nullptr)
      bad_input(
          "plan \"{}\" is written through a window, but none was opened; call world.window(op).open() before run()",
          plan.name);
    if (weights) need(inputs[i].w != nullptr, "w", plan);
    if (weights && size_of(p.weight) == 0) check_blocks(p, inputs[i], plan);
    if (p.addend) need(inputs[i].addend != nullptr, "an addend", plan);
    if (p.bias) need(inputs[i].bias != nullptr, "a bias", plan);
    if (p.residual) need(inputs[i].residual != nullptr, "a residual", plan);
    if (p.kind == ProducerKind::embedding_bag)
      check_bags(p, rank, inputs[i], counts.rows < 0 || !limits_rows(i) ? p.m : std::min(p.m, counts.rows));
  }
}

bool Op::State::is_own(int buffer) const {
  return std::find(own_outputs.begin(), own_outputs.end(), buffer) != own_outputs.end();
}

void Op::State::check(std::span<void* const> outputs) const {
  std::size_t next = 0;
  for (int b = 0; b < int_size(plan.buffers); ++b) {
    if (plan.buffers[at(b)].role != Role::output) continue;
    if (next < outputs.size() && outputs[next] != nullptr && !is_own(b))
      bad_input("output \"{}\" of plan \"{}\" is written or read by other ranks; let it be the op's own memory",
                plan.buffers[at(b)].name, plan.name);
    ++next;
  }
  if (!outputs.empty() && next != outputs.size())
    bad_input("plan \"{}\" has {} outputs, but the run gives memory for {}", plan.name, next, outputs.size());
}

// Where the run puts its outputs: the caller's memory, or null, which is the op's own.
void Op::State::bind(std::span<void* const> outputs) {
  std::size_t next = 0;
  for (std::size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].role == Role::output) bindings.buffers[b] = outputs.empty() ? nullptr : outputs[next++];
}

void Op::State::run(std::span<const Inputs> inputs, const Counts& counts, std::span<void* const> outputs) {
  check(inputs, counts);
  check(outputs);
  bind(outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    bindings.producers[i] = inputs[i];
    if (!is_written(plan.producers[i], inputs[i])) continue;
    window->close();
    bindings.producers[i].written = window->rows_of_run();
    bindings.producers[i].written_ld = window->ld;
  }
  if (window != nullptr) window->is_open = false;  // also where the run copies x, whatever was written
  for (std::size_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].role == Role::input) bindings.buffers[b] = inputs[0].rows(plan.producers[0].x());
  start(counts, Return::when_inputs_may_change);
}

void Op::State::run(std::span<const void* const> inputs, Return when) {
  if (!plan.producers.empty()) bad_input("plan \"{}\" has a producer; run it with that one's inputs", plan.name);
  std::size_t next = 0;
  for (int b = 0; b < int_size(plan.buffers); ++b) {
    if (plan.buffers[at(b)].role != Role::input) continue;
    const BufferLayout& layout = executor->layout(b);
    if (next < inputs.size() && inputs[next] == nullptr && layout.copy_bytes > 0)
      bad_input("plan \"{}\" reads \"{}\" on rank {}, but the run gives null for it", plan.name,
                plan.buffers[at(b)].name, rank);
    bindings.buffers[at(b)] = next < inputs.size() ? inputs[next] : nullptr;
    ++next;
  }
  if (next != inputs.size())
    bad_input("plan \"{}\" has {} input buffers, but the run gives {}", plan.name, next, inputs.size());
  start({}, when);
}

void Op::State::start(const Counts& counts, Return when) {
  try {
    if (when == Return::at_once)
      executor->post(bindings, counts);
    else
      executor->start(bindings, counts);
  } catch (Error& error) {
    tell_of(*this, error);
    throw;
  }
}

Matrix Op::output() { return state_->read("y"); }
Matrix Op::buffer(std::string_view name) { return state_->read(name); }
BufferView Op::view(std::string_view name) { return state_->view(name); }

Matrix Op::State::read(std::string_view name) {
  const BufferView whole = view(name);
  if (whole.dtype != Dtype::f32)
    bad_input("buffer \"{}\" of plan \"{}\" holds {}, not f32; read it with view()", name, plan.name,
              to_string(whole.dtype));
  return {static_cast<const float*>(whole.data), whole.shape[0], whole.dims > 1 ? whole.shape[1] : 1};
}

BufferView Op::State::view(std::string_view name) {
  const int index = plan.buffer(name);
  if (index < 0 || plan.buffers[index].role == Role::input || plan.buffers[index].packing.tile_rows > 0)
    bad_input("plan \"{}\" has no readable buffer \"{}\"", plan.name, name);
  try {
    executor->finish();
  } catch (Error& error) {
    tell_of(*this, error);
    throw;
  }
  const BufferLayout& layout = executor->layout(index);
  BufferView out{executor->buffer(index), layout.dtype, layout.dims, layout.shape, num(size_of(layout.dtype))};
  for (int d = 0; d < layout.dims; ++d) out.bytes *= num(layout.shape[at(d)]);
  return out;
}

bool Op::ready() {
  state_->due_ns = state_->executor->poll();
  return state_->executor->finished();
}

std::int64_t Op::due_ns() const { return state_->due_ns; }

const Plan& Op::plan() const { return state_->plan; }
std::size_t Op::bytes() const { return state_->memory.layouts[at(state_->rank)].bytes; }
Sent Op::sent() const { return state_->executor->sent(); }

}  // namespace weft
