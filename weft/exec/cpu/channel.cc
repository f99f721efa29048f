#include "weft/exec/cpu/channel.h"

#include <utility>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/exec/cpu/hooks.h"
#include "weft/exec/cpu/links.h"
#include "weft/exec/cpu/remote.h"
#include "weft/exec/cpu/signals.h"
#include "weft/exec/cpu/workbench.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

void store_in_memory(const LaneStore& store) {
  if (store.sources.size() > 1)
    sum(store.rows, store.cols, store.sources, store.to);
  else if (store.past_caches)
    copy_past_caches(store.rows, store.cols, store.sources[0], store.to);
  else
    copy(store.rows, store.cols, store.sources[0], store.to);
}

class MemoryChannel final : public Channel {
 public:
  MemoryChannel(int target, Signals& signals) : Channel(Traits{}), target_(target), signals_(signals) {}

  Strip stage(std::int64_t, std::int64_t, const Strip& place, Workbench&) override { return place; }
  void store(const LaneStore& store, Workbench&) override { store_in_memory(store); }
  void signal(std::int64_t counter, Workbench&) override { signals_.raise(target_, counter); }

 private:
  int target_;
  Signals& signals_;
};

class PacedChannel final : public Channel {
 public:
  PacedChannel(int target, Links& links)
      : Channel({.may_fill = links.holds_back(target)}), target_(target), links_(links) {}

  Strip stage(std::int64_t rows, std::int64_t cols, const Strip& place, Workbench& bench) override {
    bench.unsignalled[at(target_)] += rows * row_bytes(place.dtype, cols);
    return place;
  }
  void store(const LaneStore& store, Workbench& bench) override {
    store_in_memory(store);
    bench.unsignalled[at(target_)] += store.bytes;
  }
  // The first signal covers the lane's bytes; any other to the same rank travels behind it.
  void signal(std::int64_t counter, Workbench& bench) override {
    const std::int64_t bytes = std::exchange(bench.unsignalled[at(target_)], 0);
    const Passage passage = links_.signal(target_, counter, bytes);
    if (bench.record.in_full() && bytes > 0)
      bench.record.add({EventKind::link, -1, target_, bench.run, passage.begin_ns, 0, passage.end_ns, bytes});
  }
  std::int64_t room_at(bool) const override { return links_.room_at(target_); }

 private:
  int target_;
  Links& links_;
};

class WireChannel final : public Channel {
 public:
  WireChannel(int target, const Remote& remote)
      : Channel({.in_memory = false, .most_staged = remote.most_bytes(), .may_fill = true}),
        target_(target),
        remote_(remote) {}

  Strip stage(std::int64_t rows, std::int64_t cols, const Strip& place, Workbench& bench) override {
    return remote_.stage(target_, {rows, cols, place, place.dtype}, bench.outbox);
  }
  void store(const LaneStore& store, Workbench& bench) override {
    remote_.store(target_, store.rows, store.cols, store.sources, store.to, bench.outbox);
  }
  void signal(std::int64_t counter, Workbench& bench) override { remote_.raise(target_, counter, bench.outbox); }
  std::int64_t room_at(bool between_tiles) const override {
    return between_tiles && remote_.is_backed_up() ? 0 : Transit::kNothing;
  }

 private:
  int target_;
  const Remote& remote_;
};

class HookedChannel final : public Channel {
 public:
  HookedChannel(int rank, int target, const Memory& memory, Hooks& hooks, bool may_fill)
      : Channel({.most_staged = 0, .may_fill = may_fill}),
        rank_(rank),
        target_(target),
        memory_(memory),
        hooks_(hooks) {}

  Strip stage(std::int64_t, std::int64_t, const Strip&, Workbench&) override { return {}; }
  void store(const LaneStore& store, Workbench&) override {
    if (store.sources.size() == 1)
      return hooks_.put(rank_, target_, store.rows, store.cols, store.sources[0], store.to);
    std::vector<float> folded(num(store.rows * store.cols));
    sum(store.rows, store.cols, store.sources, {folded.data(), store.cols, Dtype::f32});
    hooks_.put(rank_, target_, store.rows, store.cols, {folded.data(), store.cols, Dtype::f32}, store.to);
  }
  void signal(std::int64_t counter, Workbench&) override {
    auto* counters = reinterpret_cast<std::uint32_t*>(memory_.base[target_] + memory_.layouts[target_].counters);
    hooks_.signal(rank_, target_, counters + counter);
  }
  std::int64_t room_at(bool) const override { return hooks_.has_room(rank_, target_) ? Transit::kNothing : now_ns(); }

 private:
  int rank_, target_;
  const Memory& memory_;
  Hooks& hooks_;
};

}  // namespace

Channels::Channels(const Memory& memory, const Program& program, const Ways& ways)
    : rank_(program.rank), remote_(ways.remote), links_(ways.links), hooks_(ways.hooks) {
  for (int target = 0; target < int_size(memory.base); ++target) {
    const bool paced = links_ != nullptr && links_->paces(target);
    if (hooks_ != nullptr)
      to_.push_back(
          std::make_unique<HookedChannel>(rank_, target, memory, *hooks_, paced && links_->holds_back(target)));
    else if (remote_ != nullptr && remote_->is_remote(target))
      to_.push_back(std::make_unique<WireChannel>(target, *remote_));
    else if (paced)
      to_.push_back(std::make_unique<PacedChannel>(target, *links_));
    else
      to_.push_back(std::make_unique<MemoryChannel>(target, *ways.signals));
  }
}

void Channels::equip(Workbench* bench) const {
  if (remote_ != nullptr) bench->outbox = remote_->outbox();
  if (links_ != nullptr) bench->unsignalled.resize(to_.size());
}

void Channels::end_lane(Workbench& bench) const {
  if (remote_ != nullptr) remote_->post(bench.outbox);
  if (hooks_ != nullptr) hooks_->end_lane(rank_);
}

}  // namespace weft
