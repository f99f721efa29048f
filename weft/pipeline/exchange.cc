#include "weft/pipeline/exchange.h"

#include <algorithm>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/reshard/build/build.h"

namespace weft::pipeline {
namespace {

constexpr int kGradientSlots = 3;  // one is read, one arrives, one is posted

void add_rows(std::int64_t count, const float* from, float* into, Into how) {
  for (std::int64_t i = 0; i < count; ++i) into[i] = how == Into::add ? into[i] + from[i] : from[i];
}

}  // namespace

// One direction of one crossing, as this rank sees it. A rank of neither stage has the ops, and never runs them.
struct Exchange::Lane {
  Crossing crossing;
  bool backward = false;
  bool sends = false, receives = false;
  bool streams = false;                       // the plan has a product in it
  std::vector<Op> ops;                        // by slot
  std::vector<std::vector<float>> gradients;  // by slot: what is sent, until it is
  std::int64_t posted = 0, used = 0;          // micro-batches, where it receives ahead
  double planned_s = 0;
  Op& op(std::int64_t g) { return ops[at(g % std::ssize(ops))]; }
};

Exchange::Exchange(World& world, const Places& places, const ExchangeOptions& options, Pump* pump)
    : options_(options), stage_(places.of(world.rank()).stage), pump_(pump) {
  const std::int64_t all_rows = options_.rows;
  local_rows_ = all_rows / places.stage(stage_).data;
  if (options_.transfers.messages == Messages::one_element) {
    stand_in_.resize(num(local_rows_ * options_.cols));
    for (std::size_t i = 0; i < stand_in_.size(); ++i) stand_in_[i] = static_cast<float>(i % 251) * 0.008f - 1.0f;
  }
  for (const Crossing& crossing : places.crossings())
    for (const bool backward : {false, true}) add_lane(world, places, crossing, backward);
}

void Exchange::expect(std::int64_t end) {
  end_ = end;
  for (auto& lane : lanes_) post_ahead(*lane);
}

void Exchange::post_ahead(Lane& lane) {
  if (!options_.transfers.overlap || !lane.receives) return;
  for (; lane.posted < end_ && lane.posted - lane.used < std::ssize(lane.ops); ++lane.posted)
    post(lane, lane.posted, nullptr);
}

Exchange::~Exchange() { pump_->stop(); }

void Exchange::add_lane(World& world, const Places& places, const Crossing& crossing, bool backward) {
  auto lane = std::make_unique<Lane>();
  lane->crossing = crossing;
  lane->backward = backward;
  lane->sends = stage_ == (backward ? crossing.to : crossing.from);
  lane->receives = stage_ == (backward ? crossing.from : crossing.to);
  std::int64_t rows = options_.rows, cols = options_.cols;
  if (options_.transfers.messages == Messages::one_element)
    rows = places.stage(crossing.from).data * places.stage(crossing.to).data, cols = 1;
  const TransferOptions& how = options_.transfers;
  lane->streams = how.overlap && how.stream && how.messages == Messages::whole && options_.product_k > 0 && !backward &&
                  places.ends_in_product(crossing);
  const Plan plan = plan_of(world, places.reshard(crossing, backward, rows, cols, options_.dtype), lane.get());
  const int slots = slots_of(*lane);
  for (int slot = 0; slot < slots; ++slot) lane->ops.push_back(world.compile(plan));
  if (backward && lane->sends) lane->gradients.resize(num(slots), std::vector<float>(num(local_rows_ * options_.cols)));
  lanes_.push_back(std::move(lane));
}

Plan Exchange::plan_of(const World& world, const Reshard& reshard, Lane* lane) const {
  ReshardOptions how;
  how.schedule.strategy = options_.transfers.strategy;
  how = world.with_costs(how);
  const Network network = world.network();
  const weft::Schedule moves = choose(reshard, tasks(reshard), network, how);
  lane->planned_s = moves.makespan_s;
  if (!lane->streams) return build(reshard, moves, network, how);
  const ShardedTensor& source = reshard.transfers[0].parts[0].tensor;
  const Placement& stage = reshard.placements[at(source.placement)];
  const Producer product = gemm({.m = shard_box(source.shape, source.sharding, stage.mesh, 0).size(0),
                                 .n = options_.cols,
                                 .k = options_.product_k,
                                 .addend = true,
                                 .layout = WeightLayout::nk});
  return build(product, reshard, network, how);
}

// A receiver posts ahead one more than it holds. Where tiles go straight to its memory, a sender would wait for a slot:
// there are as many as the sender holds micro-batches, and one more. For when it makes value g it has the gradients of
// all but so many before, and the receiver, which works in order, is done with the one before those.
int Exchange::slots_of(const Lane& lane) const {
  if (lane.backward) return kGradientSlots;
  return options_.peak_activations[at(lane.streams ? lane.crossing.from : lane.crossing.to)] + 1;
}

Exchange::Lane* Exchange::find(std::int64_t value, bool backward, bool sends) const {
  for (const auto& lane : lanes_)
    if (lane->crossing.value == value && lane->backward == backward && (sends ? lane->sends : lane->receives))
      return lane.get();
  return nullptr;
}

bool Exchange::takes(std::int64_t value) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& lane) {
    return lane->crossing.value == value && !lane->backward && lane->receives;
  });
}

void Exchange::post(Lane& lane, std::int64_t g, const float* rows) {
  const auto lock = pump_->lock();
  const void* input = rows;
  if (lane.streams)
    lane.op(g).run();  // has no steps here, so it only opens
  else
    lane.op(g).post(std::span(&input, 1));
  pump_->watch(&lane.op(g));
}

void Exchange::hand_over(Lane& lane, std::int64_t g, const float* rows) {
  if (options_.transfers.overlap)
    post(lane, g, rows);
  else
    queued_.push_back({&lane, g, rows});
}

void Exchange::send(std::int64_t value, std::int64_t g, const float* rows) {
  for (auto& lane : lanes_)
    if (lane->crossing.value == value && !lane->backward && lane->sends) hand_over(*lane, g, rows);
}

bool Exchange::streams(std::int64_t value) const {
  const Lane* lane = find(value, false, true);
  return lane != nullptr && lane->streams;
}

void Exchange::send_product(std::int64_t value, std::int64_t g, const LastProduct& product) {
  Lane& lane = *find(value, false, true);
  Inputs inputs;
  inputs.x = product.h;
  inputs.w = product.weight;
  inputs.addend = product.addend;
  const auto lock = pump_->lock();
  lane.op(g).run(inputs);
  pump_->watch(&lane.op(g));
}

const float* Exchange::await(Lane& lane, std::int64_t g, float* room) {
  const std::int64_t begin = now_ns();
  const auto lock = pump_->lock();
  const BufferView view = lane.op(g).view("dst0");
  waited_s_ += seconds_since(begin);
  if (!stand_in_.empty()) return stand_in_.data();
  if (view.dtype == Dtype::f32) return static_cast<const float*>(view.data);
  const auto* narrow = static_cast<const bf16*>(view.data);
  for (std::int64_t i = 0; i < local_rows_ * options_.cols; ++i) room[i] = to_float(narrow[i]);
  return room;
}

const float* Exchange::receive(std::int64_t value, std::int64_t g, float* room) {
  return await(*find(value, false, false), g, room);
}

void Exchange::done() {
  for (auto& lane : lanes_)
    if (!lane->backward) ++lane->used, post_ahead(*lane);
}

void Exchange::send_gradient(std::int64_t value, std::int64_t g, const float* rows) {
  Lane* lane = find(value, true, true);
  std::vector<float>& kept = lane->gradients[at(g % std::ssize(lane->ops))];
  if (g >= std::ssize(lane->ops)) {  // the slot's last one is on its way long since
    const auto lock = pump_->lock();
    lane->op(g).view("dst0");
  }
  std::copy_n(rows, kept.size(), kept.begin());
  hand_over(*lane, g, kept.data());
}

bool Exchange::add_gradients(std::int64_t value, std::int64_t g, float* into, Into how) {
  bool any = false;
  for (auto& lane : lanes_) {
    if (lane->crossing.value != value || !lane->backward || !lane->receives) continue;
    room_.resize(num(local_rows_ * options_.cols));
    add_rows(local_rows_ * options_.cols, await(*lane, g, room_.data()), into, any ? Into::add : how);
    any = true;
    ++lane->used;
    post_ahead(*lane);
  }
  return any;
}

void Exchange::drain() {
  const auto lock = pump_->lock();
  for (auto& lane : lanes_)
    if (lane->sends || lane->receives)
      for (Op& op : lane->ops) op.view("dst0");
}

Sent Exchange::sent(std::int64_t value) const {
  Sent all;
  for (const auto& lane : lanes_) {
    if (lane->crossing.value != value || lane->backward || !lane->sends) continue;
    for (const Op& op : lane->ops) all.bytes += op.sent().bytes, all.signals += op.sent().signals;
  }
  return all;
}

double Exchange::planned_s(const Crossing& crossing, bool backward) const {
  for (const auto& lane : lanes_)
    if (lane->backward == backward && lane->crossing.value == crossing.value && lane->crossing.to == crossing.to)
      return lane->planned_s;
  return 0;
}

void Exchange::gap(const WorkItem* next, std::int64_t g) {
  if (options_.transfers.overlap) return;
  const std::int64_t begin = now_ns();
  if (next != nullptr && next->work != Work::backward_weight)
    for (auto& lane : lanes_)
      if (lane->receives && lane->backward == is_backward(next->work)) post(*lane, g, nullptr);
  for (const Queued& queued : queued_) post(*queued.lane, queued.g, queued.rows);
  for (const Queued& queued : queued_) {
    const auto lock = pump_->lock();
    queued.lane->op(queued.g).view("dst0");  // waits until all of it is on its way
  }
  queued_.clear();
  waited_s_ += seconds_since(begin);
}

}  // namespace weft::pipeline
