// verify() against an adversary that knows nothing of it, on many thousands of broken plans. Whatever
// verify() accepts must give every rank what it is owed under every timing the adversary can think of, and
// the same bits as the plan it was made from. What verify() refuses and the adversary cannot break is
// counted, not failed: a proof may be stricter than luck. WEFT_MUTANT=n looks at one mutant and prints it;
// WEFT_MUTANTS=n makes that many.
#include <array>
#include <cstdlib>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/draft.h"
#include "weft/collective/two_level.h"
#include "weft/exec/ref/ref.h"
#include "weft/plan/program.h"
#include "weft/plan/verify/verify.h"

#include "tests/mutants/adversary.h"
#include "tests/mutants/mutate.h"

namespace weft::mutants {
namespace {

#ifdef WEFT_SANITIZED
constexpr std::int64_t kMutants = 600, kTimings = 6, kBases = 60;
#else
constexpr std::int64_t kMutants = 12000, kTimings = 40, kBases = 1200;
#endif
constexpr int kRuns = 3;

struct Mutant {
  Mutation mutation = Mutation::drop_signal;
  Plan original, plan;
};

Mutant make_mutant(std::int64_t number) {
  Random random(0x5eed0000u + static_cast<std::uint64_t>(number));
  for (;;) {
    Mutant out;
    out.mutation = static_cast<Mutation>(random() % kMutations);
    out.original = random_plan(random, static_cast<int>(random() % kBuilders));
    if (auto plan = mutated(out.original, out.mutation, random)) {
      out.plan = std::move(*plan);
      return out;
    }
  }
}

// Random inputs of every rank for one run.
class RandomInputs {
 public:
  RandomInputs(const Plan& plan, std::uint64_t seed) : random_(seed) {
    const Expander expander(plan);
    const Producer& p = plan.producers[0];
    for (int rank = 0; rank < plan.num_ranks; ++rank) {
      Bindings b;
      Inputs in;
      const std::int64_t n = p.columns(rank);
      in.x = fill(p.m * (p.kind == ProducerKind::copy ? n : p.k));
      in.w = fill(p.k * n);
      in.bias = fill(n);
      for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
        const auto shape = expander.shape(static_cast<int>(i), rank);
        if (plan.buffers[i].role == Role::output) in.residual = fill(shape[0] * shape[1]);
        b.buffers.push_back(plan.buffers[i].role == Role::input ? fill(shape[0] * shape[1]) : nullptr);
      }
      b.producers = {in};
      bindings.push_back(b);
    }
  }
  std::vector<Bindings> bindings;

 private:
  const float* fill(std::int64_t count) {
    auto& out = memory_.emplace_back(num(count));
    for (float& value : out) value = std::uniform_real_distribution<float>(-1.0f, 1.0f)(random_);
    return out.data();
  }
  Random random_;
  std::vector<std::vector<float>> memory_;
};

using Outputs = std::vector<std::vector<float>>;  // [run * ranks + rank]

Outputs outputs_of(const Plan& plan, std::uint64_t seed, std::uint64_t inputs) {
  RefExecutor executor(plan, seed);
  Outputs out;
  for (int run = 0; run < kRuns; ++run) {
    const RandomInputs random(plan, inputs + run);
    executor.run(random.bindings);
    for (int rank = 0; rank < plan.num_ranks; ++rank) out.push_back(executor.output(rank));
  }
  return out;
}

// Empty, or what the adversary found.
std::string broken_by(const Plan& plan, std::int64_t timings) {
  try {
    const Adversary adversary(plan);
    for (std::int64_t seed = 0; seed < timings; ++seed)
      if (std::string wrong = adversary.run(seed); !wrong.empty()) return fmt::format("timing {}: {}", seed, wrong);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

std::string differs_from_original(const Mutant& mutant, std::int64_t number) {
  try {
    const Outputs expected = outputs_of(mutant.original, 0, number);
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      if (outputs_of(mutant.plan, seed, number) != expected) return fmt::format("other bits under order {}", seed);
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

std::string verdict_on(const Plan& plan) {
  try {
    const Verdict verdict = verify(plan);
    return verdict.ok() ? "" : verdict.problems[0];
  } catch (const Error& e) {
    return e.code() == Code::bad_input ? e.what() : throw;
  }
}

std::string text(const Plan& plan) {
  std::string out =
      fmt::format("{}, {} ranks, m {} n {} k {} tile {} x {}\n", plan.name, plan.num_ranks, plan.producers[0].m,
                  plan.producers[0].n, plan.producers[0].k, plan.producers[0].tile[0], plan.producers[0].tile[1]);
  const auto range = [](const PieceRule& p) {
    std::string box;
    for (std::size_t d = 0; d < p.box.lo.size(); ++d)
      box += fmt::format("{}{}:{}", d > 0 ? ", " : "", p.box.lo[d].str(), p.box.hi[d].str());
    return fmt::format(" b{}@{}[{}]x{}?{}", p.buffer, p.rank.str(), box, p.each.str(), p.when.str());
  };
  for (const Buffer& b : plan.buffers)
    out += fmt::format("buffer {} {} depth {}\n", b.name, to_string(b.role), b.depth);
  for (const Counter& c : plan.counters)
    out += fmt::format("counter {} x{} total {}\n", c.name, c.count.str(), c.total.str());
  for (const Rule& rule : plan.rules) {
    out += fmt::format("{} {} x{} when {} tile {}x{}:", rule.kind == ActionKind::step ? "step" : "trigger", rule.name,
                       rule.count.str(), rule.when.str(), rule.tile[0], rule.tile[1]);
    for (const Let& let : rule.let) out += fmt::format(" {}={}", let.name, let.value.str());
    if (!rule.box.lo.empty())
      out += fmt::format(" [{}:{}, {}:{}]", rule.box.lo[0].str(), rule.box.hi[0].str(), rule.box.lo[1].str(),
                         rule.box.hi[1].str());
    for (const WaitRule& w : rule.waits)
      out += fmt::format("\n   wait {}[{}] at {} lag {} per {} x{}?{}", plan.counters[w.counter].name, w.index.str(),
                         w.at.str(), w.lag, w.per.str(), w.each.str(), w.when.str());
    for (const PieceRule& p : rule.reads) out += "\n   read" + range(p);
    for (const PieceRule& p : rule.sources) out += "\n   source" + range(p);
    for (const PieceRule& p : rule.targets) out += "\n   target" + range(p);
    for (const SignalRule& g : rule.signals)
      out += fmt::format("\n   signal {}[{}]@{} per {} x{}?{}", plan.counters[g.counter].name, g.index.str(),
                         g.rank.str(), g.per.str(), g.each.str(), g.when.str());
    out += "\n";
  }
  return out;
}

struct Tally {
  int made = 0, refused = 0, refused_unbroken = 0, accepted = 0, wrong = 0;
};

void judge(std::int64_t number, std::map<Mutation, Tally>* tallies, bool show) {
  const Mutant mutant = make_mutant(number);
  Tally& tally = (*tallies)[mutant.mutation];
  ++tally.made;
  const std::string refusal = verdict_on(mutant.plan);
  std::string wrong = broken_by(mutant.plan, kTimings);
  if (refusal.empty()) {
    ++tally.accepted;
    if (wrong.empty()) wrong = differs_from_original(mutant, number);
    if (!wrong.empty()) ++tally.wrong;
    EXPECT_EQ(wrong, "") << "mutant " << number << " (" << to_string(mutant.mutation) << " of " << mutant.original.name
                         << ", " << mutant.plan.num_ranks << " ranks) is accepted but wrong; WEFT_MUTANT=" << number;
  } else {
    ++tally.refused;
    tally.refused_unbroken += wrong.empty();
  }
  if (show)
    fmt::print("mutant {}: {}\n{}verify: {}\nadversary: {}\n", number, to_string(mutant.mutation), text(mutant.plan),
               refusal.empty() ? "accepted" : refusal, wrong.empty() ? "right" : wrong);
}

void print(const std::map<Mutation, Tally>& tallies) {
  Tally all;
  fmt::print("{:20} {:>7} {:>8} {:>17} {:>9} {:>6}\n", "mutation", "mutants", "refused", "(never broken)", "accepted",
             "wrong");
  const auto line = [](std::string_view name, const Tally& t) {
    fmt::print("{:20} {:7} {:8} {:17} {:9} {:6}\n", name, t.made, t.refused, t.refused_unbroken, t.accepted, t.wrong);
  };
  for (const auto& [mutation, t] : tallies) {
    line(to_string(mutation), t);
    all.made += t.made, all.refused += t.refused, all.refused_unbroken += t.refused_unbroken;
    all.accepted += t.accepted, all.wrong += t.wrong;
  }
  line("all", all);
}

TEST(Adversary, FindsNothingWrongWithWhatBuildersWrite) {
  for (std::int64_t i = 0; i < kBases; ++i) {
    Random random(static_cast<std::uint64_t>(i));
    const Plan plan = random_plan(random, static_cast<int>(i % kBuilders));
    ASSERT_EQ(verdict_on(plan), "") << "base " << i << "\n" << text(plan);
    ASSERT_EQ(broken_by(plan, kTimings), "") << "base " << i << "\n" << text(plan);
  }
}

TEST(Adversary, BreaksPlansThatHaveLostTheirCredits) {
  Space space;
  space.kind = SpaceKind::reduce_scatter;
  space.mesh = Mesh({{"tp", 3}});
  space.axis = "tp";
  Space hosts = space;
  hosts.mesh = Mesh({{"tp", 4}});
  const Producer p = validated(gemm({.m = 6, .n = 2, .k = 1, .tile = {1, 2}}), 3);
  for (Plan plan : {build_reduce_scatter(p, space, Route::ring), build_reduce_scatter(p, space, Route::direct),
                    build_all_reduce(p, space, Route::one_shot), build_gather_gemm(p, space, Route::ring),
                    build_gather_gemm(p, space, Route::direct), build_two_level_reduce_scatter(p, hosts, 2),
                    build_two_level_gather_gemm(p, hosts, 2)}) {
    for (Rule& rule : plan.rules) std::erase_if(rule.waits, [](const WaitRule& w) { return w.lag > 0; });
    EXPECT_NE(verdict_on(plan), "") << plan.name;
    EXPECT_NE(broken_by(plan, kTimings), "") << plan.name;
  }
}

TEST(Mutants, AcceptedOnesAreRight) {
  std::map<Mutation, Tally> tallies;
  if (const char* number = std::getenv("WEFT_MUTANT")) return judge(std::atoll(number), &tallies, true);
  const char* wanted = std::getenv("WEFT_MUTANTS");
  const std::int64_t count = wanted != nullptr ? std::atoll(wanted) : kMutants;
  for (std::int64_t number = 0; number < count; ++number) judge(number, &tallies, false);
  print(tallies);
}

}  // namespace
}  // namespace weft::mutants
