#include "weft/sim/net/symmetry.h"

#include <functional>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/plan/plans_test.h"
#include "weft/sim/net/symbolic.h"

namespace weft::netsim {
namespace {

std::int64_t value_at(const Symbolic& value, const Digits& digits, int rank) {
  std::int64_t sum = value.b();
  for (const Term& t : value.terms()) sum += t.a * ((t.e + digits.digit(rank, t.digit)) % digits.size(t.digit));
  return sum;
}

Expr random_expr(std::mt19937* random, int depth) {
  const auto pick = [&](int n) { return static_cast<int>((*random)() % static_cast<unsigned>(n)); };
  if (depth == 0 || pick(4) == 0) {
    const int leaf = pick(4);
    return leaf == 0 ? Expr::name("r") : leaf == 1 ? Expr::name("N") : leaf == 2 ? Expr::name("s") : Expr(pick(9));
  }
  using Op = Expr::Op;
  static constexpr Op kOps[] = {Op::add, Op::sub, Op::add, Op::sub, Op::mul, Op::div,  Op::mod, Op::mod, Op::eq,
                                Op::ne,  Op::lt,  Op::le,  Op::gt,  Op::ge,  Op::both, Op::up,  Op::min, Op::max};
  const Op op = kOps[pick(18)];
  Expr right = random_expr(random, depth - 1);
  if (op == Op::div || op == Op::mod || op == Op::up) {
    static const Expr kDivisors[] = {Expr::name("N"), Expr(2), Expr(4), Expr(3)};
    right = kDivisors[pick(4)];
  }
  if (pick(12) == 0) return cut(Expr(24), Expr::name("N"), random_expr(random, depth - 1) % Expr::name("N"));
  return Expr::make(op, {random_expr(random, depth - 1), right});
}

// What is known of an expression is its value on every rank.
TEST(Symbolic, IsTheValueOnEveryRankWhereItIsKnown) {
  std::mt19937 random(7);
  const Scope scope{{"r", "N", "s"}, {}};
  int known = 0, with_digits = 0;
  for (const std::vector<int>& sizes : {std::vector<int>{8}, {2, 4}, {4, 2}, {2, 2, 2}, {12}, {3, 4}, {6}}) {
    const Digits digits(sizes);
    for (int i = 0; i < 4000; ++i) {
      const Expr expr = random_expr(&random, 4);
      const int s = static_cast<int>(random() % 5);
      Slots slots;
      slots.push(Symbolic::rank(digits));
      slots.push(digits.count());
      slots.push(s);
      Symbolic value;
      try {
        value = SymbolicFormula(expr, scope).eval(slots, {}, digits);
      } catch (const Error&) {
        continue;  // no value at all
      }
      if (!value.is_known()) continue;
      ++known;
      with_digits += !value.is_constant();
      for (int rank = 0; rank < digits.count(); ++rank) {
        const std::vector<std::int64_t> plain{rank, digits.count(), s};
        std::int64_t expected;
        try {
          expected = Formula(expr, scope).eval(plain, {});
        } catch (const Error&) {
          continue;
        }
        ASSERT_EQ(value_at(value, digits, rank), expected) << expr.str() << " on rank " << rank;
        ASSERT_EQ(value_at(value.positive(digits), digits, rank), expected) << expr.str() << " on rank " << rank;
      }
    }
  }
  EXPECT_GT(known, 10000);
  EXPECT_GT(with_digits, 1000);
}

TEST(Symbolic, KnowsWhatRulesAreMadeOf) {
  const Digits hosts({4, 8}), twos({2, 2, 2}), ring({32});
  const Scope scope{{"r"}, {}};
  const auto known = [&](const Digits& digits, const char* text) {
    Slots slots;
    slots.push(Symbolic::rank(digits));
    return SymbolicFormula(Expr::parse(text), scope).eval(slots, {}, digits).is_known();
  };
  EXPECT_TRUE(known(ring, "(r - 7) % 32"));
  EXPECT_TRUE(known(ring, "cut(64, 32, (r + 3) % 32 + 1)"));
  EXPECT_FALSE(known(ring, "cut(65, 32, r)"));
  EXPECT_FALSE(known(ring, "r / 8"));
  EXPECT_FALSE(known(ring, "r == 0"));
  EXPECT_TRUE(known(ring, "(r + 1) % 32 == r"));
  EXPECT_TRUE(known(hosts, "r / 8 * 8 + (r + 3) % 8"));
  EXPECT_TRUE(known(hosts, "(r + 16) % 32"));
  EXPECT_FALSE(known(hosts, "(r + 1) % 32"));
  EXPECT_TRUE(known(twos, "r + 2 * (1 - 2 * (r / 2 % 2))"));
}

// Brute force: each rank's program is that of rank 0 with ranks moved; lanes, bytes and waits as they are.
void expect_symmetric(const Plan& plan, const PlanSymmetry& symmetry) {
  const Expander expander(plan);
  const Program zero = expander.program(0);
  for (int rank = 1; rank < plan.num_ranks; ++rank) {
    const Program other = expander.program(rank);
    ASSERT_EQ(other.actions.size(), zero.actions.size()) << plan.name;
    ASSERT_EQ(other.waits.size(), zero.waits.size());
    ASSERT_EQ(other.signals.size(), zero.signals.size());
    for (std::size_t a = 0; a < zero.actions.size(); ++a) {
      EXPECT_EQ(other.actions[a].lanes, zero.actions[a].lanes);
      const auto targets = other.targets(other.actions[a]), of_zero = zero.targets(zero.actions[a]);
      ASSERT_EQ(targets.size(), of_zero.size());
      for (std::size_t i = 0; i < targets.size(); ++i) {
        EXPECT_EQ(targets[i].rank, symmetry.digits.add(of_zero[i].rank, rank)) << plan.name;
        EXPECT_TRUE(same_shape(targets[i].box, of_zero[i].box));
      }
    }
    for (std::size_t i = 0; i < zero.signals.size(); ++i)
      EXPECT_EQ(other.signals[i].rank, symmetry.digits.add(zero.signals[i].rank, rank));
    for (std::size_t i = 0; i < zero.waits.size(); ++i) EXPECT_EQ(other.waits[i].at, zero.waits[i].at);
  }
}

TEST(Symmetry, IsProvedOfEvenPlansAndIsThere) {
  int proved = 0;
  for (const int ranks : {2, 4, 6, 8})
    for (const std::int64_t rows : {24, 25})
      for (const Plan& plan : testing_plans::all_plans(ranks, rows)) {
        const Expander expander(plan);
        const Program zero = expander.program(0);
        const auto symmetry = plan_symmetry(plan, expander, zero, switch_topology(ranks, {1e9, 0}));
        if (!symmetry) continue;
        ++proved;
        expect_symmetric(plan, *symmetry);
        if (plan.name.find("broadcast") != std::string::npos) ADD_FAILURE() << "a root is no rank like others";
      }
  EXPECT_GT(proved, 50);
}

TEST(Symmetry, IsNotProvedWhereOneRankIsAnException) {
  const auto has_symmetry = [](const Plan& plan) {
    const Expander expander(plan);
    return plan_symmetry(plan, expander, expander.program(0), switch_topology(plan.num_ranks, {1e9, 0})).has_value();
  };
  Plan plan = testing_plans::reduce_scatter_plan(testing_plans::small_gemm(32, 16, 4, 4), 4, Route::ring);
  EXPECT_TRUE(has_symmetry(plan));
  for (const char* when : {"1 - (r == 3)", "r < 2", "(r + s) % 2"}) {
    Plan broken = plan;
    broken.rules[0].when = Expr::parse(when);
    EXPECT_FALSE(has_symmetry(broken)) << when;
  }
  Plan counters = plan;  // names of one family that do not fit together
  counters.rules[0].signals[0].index = Expr::parse("(r + i) % 3");
  EXPECT_FALSE(has_symmetry(counters));
  EXPECT_FALSE(
      has_symmetry(testing_plans::reduce_scatter_plan(testing_plans::small_gemm(33, 16, 4, 4), 4, Route::ring)));
}

// Tile by tile, rank 0 needs the second half of what round 0 brings for its round 1, rank N - 1 the first.
TEST(Symmetry, OfHalvingAndDoublingIsThatOfWholeRounds) {
  for (const int ranks : {4, 8, 32}) {
    const Space space = testing_plans::space_of(ranks, SpaceKind::all_reduce);
    const Plan plan =
        build_all_reduce(testing_plans::small_gemm(8 * ranks, 20, 5, ranks), space, Route::halving_doubling);
    const Expander expander(plan);
    const Program zero = expander.program(0);
    const Topology network = switch_topology(ranks, {1e9, 0});
    EXPECT_FALSE(plan_symmetry(plan, expander, zero, network));
    const auto whole = plan_symmetry(plan, expander, zero, network, true);
    ASSERT_TRUE(whole) << ranks;
    EXPECT_EQ(whole->digits.size(0), 2);
    expect_symmetric(plan, *whole);
    for (const auto& [name, counter] : {std::pair{"double", "got"}, {"halve", "full"}}) {  // names that overlap
      Plan broken = plan;
      for (Rule& rule : broken.rules)
        for (SignalRule& signal : rule.signals)
          if (rule.name == name && broken.counters[at(signal.counter)].name == counter) signal.index = 0;
      const Expander other(broken);
      EXPECT_FALSE(plan_symmetry(broken, other, other.program(0), network, true)) << counter;
    }
  }
}

TEST(Symmetry, OfATorusHasItsDimensions) {
  for (const std::vector<int>& dims : {std::vector<int>{3, 2}, {4, 2, 3}, {2, 2, 3, 2}}) {
    const int ranks = std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>());
    Space space = testing_plans::space_of(ranks, SpaceKind::all_reduce);
    space.options.torus = dims;
    const Plan plan = build_all_reduce(testing_plans::small_gemm(4 * ranks, 20, 5, ranks), space, Route::torus);
    const Expander expander(plan);
    const auto symmetry = plan_symmetry(plan, expander, expander.program(0), switch_topology(ranks, {1e9, 0}));
    ASSERT_TRUE(symmetry) << dims.size();
    EXPECT_EQ(symmetry->digits.num(), int_size(dims));
    expect_symmetric(plan, *symmetry);
  }
}

TEST(Symmetry, FollowsFromTheNetworksKind) {
  const Link link{1e9, 1e-6};
  const Digits ring({8}), grid({4, 2}), twos({2, 2, 2});
  EXPECT_EQ(shared_steps(ring, ring_topology(8, link)), (std::vector<int>{1}));
  EXPECT_EQ(shared_steps(grid, torus_topology({4, 2}, {link, link})), (std::vector<int>{1, 1}));
  EXPECT_EQ(shared_steps(ring, torus_topology({4, 2}, {link, link})), (std::vector<int>{2}));
  EXPECT_EQ(shared_steps(twos, switch_topology(8, link)), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(shared_steps(twos, torus_topology({2, 2, 2}, {link, link, link})), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(shared_steps(ring, torus_topology({2, 2, 2}, {link, link, link})), (std::vector<int>{4}));
  EXPECT_EQ(shared_steps(ring, rails_topology(4, 2, link, link)), (std::vector<int>{2}));
  ClosOptions clos{.ranks = 8, .ranks_per_leaf = 4, .num_spines = 2, .link = link, .uplink = link};
  EXPECT_EQ(shared_steps(ring, clos_topology(clos)), (std::vector<int>{4}));
  clos.num_spines = 3;
  EXPECT_EQ(shared_steps(ring, clos_topology(clos)), (std::vector<int>{8}));
  clos.num_spines = 2, clos.spines = Spines::hashed;
  EXPECT_EQ(shared_steps(ring, clos_topology(clos)), (std::vector<int>{8}));
  Topology slow = ring_topology(8, link);
  slow_rank(&slow, 1, 2, "test");
  EXPECT_EQ(shared_steps(ring, slow), (std::vector<int>{8}));
}

// A renumbering of the network maps routes to routes, wire by wire, and no wire to itself.
TEST(Symmetry, RoutesMoveWithTheirEnds) {
  const Link link{1e9, 1e-6};
  for (const Topology& t :
       {ring_topology(8, link), torus_topology({4, 2}, {link, link}), torus_topology({2, 2, 2}, {link, link, link}),
        switch_topology(8, link), full_topology(8, link), rails_topology(4, 2, link, link),
        clos_topology({.ranks = 8, .ranks_per_leaf = 4, .num_spines = 2, .link = link, .uplink = link})})
    for (const Digits& digits : {Digits({8}), Digits({4, 2}), Digits({2, 2, 2})}) {
      const Classes classes = classes_of(digits, shared_steps(digits, t), t);
      if (classes.wire_of.empty()) continue;
      for (int from = 0; from < 8; ++from)
        for (int to = 0; to < 8; ++to) {
          const int first = classes.first_of[at(from)];
          const int moved = digits.add(to, digits.add(first, digits.negative(from)));
          const std::vector<int> route = t.route(from, to), like = t.route(first, moved);
          ASSERT_EQ(route.size(), like.size());
          for (std::size_t i = 0; i < route.size(); ++i)
            EXPECT_EQ(classes.wire_of[at(route[i])], classes.wire_of[at(like[i])]) << t.name << from << to;
        }
      std::vector<int> times(t.wires.size(), 0);
      for (const std::int32_t wire : classes.wire_of) ++times[at(wire)];
      for (const int count : times) EXPECT_TRUE(count == 0 || count == 8 / classes.count) << t.name;
    }
}

}  // namespace
}  // namespace weft::netsim
