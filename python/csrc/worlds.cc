#include "python/csrc/worlds.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/text/save.h"

#include "python/csrc/gpu_ops.h"
#include "python/csrc/plans.h"

namespace weft::torch_ops {
namespace {

constexpr std::size_t kMostProducts = 64, kMostOwnPlans = 16;
// Of memory that all ranks count alike: what a rank has of an op can differ by a row.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

using Groups = std::map<std::string, std::unique_ptr<Group>>;

// Never destroyed: what is left at the end goes with the process, and leave_all() is the orderly way.
Groups& groups() {
  static auto* const all = new Groups;
  return *all;
}

std::atomic<bool> forked{false};

std::int64_t elements_of(const Shape& shape, std::int64_t ranks) {
  std::int64_t columns = shape.n;
  for (const std::int64_t tables : shape.tables.of) columns += tables * shape.tables.dim;
  return shape.m * columns * (ranks + 1);
}

std::string finish_of(const Shape& shape) {
  std::string words = shape.bias ? " bias" : "";
  if (shape.activation != Activation::none) words += fmt::format(" {}", to_string(shape.activation));
  if (shape.residual) words += " residual";
  if (shape.type != Dtype::f32) words += fmt::format(" {}", to_string(shape.type));
  if (shape.wire != Dtype::f32) words += fmt::format(" wire {}", to_string(shape.wire));
  return words;
}

// Of several, for others may use the cores too.
template <typename F>
double best_seconds(F&& f) {
  constexpr double kLongest = 0.02;
  double best = 1e9, all = 0;
  for (int i = 0; i < 3 || (i < 100 && all < kLongest); ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, took);
    all += took;
  }
  return best;
}

// Long enough to be at full speed, short enough for a joining rank: about a millisecond each.
constexpr std::int64_t kSide = 320;

Rates measure(World& world, Dtype type) {
  const Tensor x = new_tensor({kSide, kSide}, type), w = new_tensor({kSide, kSide}, type);
  // About 0.75 in either type.
  for (const Tensor& t : {x, w}) std::memset(t.data_ptr(), 0x3f, num(row_bytes(type, kSide * kSide)));
  const Tensor y = new_tensor({kSide, kSide}, type);
  const Shape shape{.m = kSide, .n = kSide, .k = kSide, .type = type};
  Op ours = world.compile(product_of(shape), keep());
  Inputs inputs;
  inputs.x = static_cast<const float*>(x.data_ptr());
  inputs.narrow_x = static_cast<const bf16*>(x.data_ptr());
  inputs.w = w.data_ptr();
  const double flops = 2.0 * kSide * kSide * kSide;
  std::array<float, 2> rates{};
  rates[0] = static_cast<float>(flops / best_seconds([&] { product_into(y, x, w); }));
  rates[1] = static_cast<float>(flops / best_seconds([&] {
                                  ours.run(inputs);
                                  ours.view("y");
                                }));
  Op mean = world.compile(copy({.rows = 1, .cols = 2}), all_reduce(world.mesh({{"group", world.size()}}), "group"));
  mean.run(rates.data());
  const float* sums = mean.output().data;
  return {sums[0] / static_cast<double>(world.size()), sums[1] / static_cast<double>(world.size())};
}

}  // namespace

Group::Group(World world)
    : world_(std::move(world)),
      rates_(measure(world_, Dtype::f32)),
      narrow_rates_(measure(world_, Dtype::bf16)),
      gpu_(std::make_unique<GpuOps>()) {}

Group::~Group() = default;

std::shared_ptr<Product> Group::product(const Shape& shape) {
  if (const auto known = by_shape_.find(shape); known != by_shape_.end()) {
    products_.splice(products_.begin(), products_, known->second);
    return products_.front();
  }
  products_.push_front(std::make_shared<Product>(world_, shape, choose_way(shape, world_, rates(shape.type))));
  by_shape_[shape] = products_.begin();
  ++compiled_;
  std::int64_t elements = 0;
  std::size_t kept = 0;
  for (const auto& product : products_) {
    elements += elements_of(product->shape(), size());
    if (kept > 0 && (kept >= kMostProducts || elements > kMostElements)) break;
    ++kept;
  }
  while (products_.size() > kept) {
    by_shape_.erase(products_.back()->shape());
    products_.pop_back();
  }
  return products_.front();
}

std::shared_ptr<Op> Group::own_plan(const std::string& text) {
  auto known = std::find_if(own_plans_.begin(), own_plans_.end(), [&](const auto& own) { return own.first == text; });
  if (known == own_plans_.end()) {
    const Plan plan = parse_plan(text, "the plan given to weft.run_plan");
    own_plans_.emplace_front(text, std::make_shared<Op>(world_.compile(plan)));
    if (own_plans_.size() > kMostOwnPlans) own_plans_.pop_back();
  } else {
    own_plans_.splice(own_plans_.begin(), own_plans_, known);
  }
  return own_plans_.front().second;
}

std::size_t Group::bytes() const {
  std::size_t bytes = 0;
  for (const auto& own : own_plans_) bytes += own.second->bytes();
  for (const auto& product : products_) bytes += product->bytes();
  return bytes;
}

std::string Group::describe() const {
  std::string lines;
  for (const auto& product : products_) {
    const Shape& s = product->shape();
    const std::string sizes = s.call == Call::embedding_bag_all_to_all
                                  ? fmt::format("m {} dim {} rows {}", s.m, s.tables.dim, s.tables.rows)
                                  : fmt::format("m {} n {} k {}{}", s.m, s.n, s.k, finish_of(s));
    lines += fmt::format("{} {}: {}\n", name_of(s.call), sizes, product->choice().why);
  }
  lines += gpu_->describe();
  return lines;
}

std::unique_lock<std::recursive_mutex> enter() {
  static auto* const mutex = new std::recursive_mutex;
  if (forked.load(std::memory_order_relaxed))
    bad_input("this process was forked from a rank of Weft and is none; start ranks with torchrun, not with fork");
  return std::unique_lock(*mutex);
}

Group& group_of(const std::string& name) {
  const auto found = groups().find(name);
  if (found == groups().end())
    bad_input("this process has not joined Weft{}; call weft.init() first", name.empty() ? "" : " as part of " + name);
  return *found->second;
}

void add_group(const std::string& name, World world) {
  if (groups().count(name) > 0) bad_input("this process has joined Weft already; call weft.init() once");
  if (groups().empty()) pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  groups().emplace(name, std::make_unique<Group>(std::move(world)));
}

void leave_all() { groups().clear(); }

}  // namespace weft::torch_ops
