// What verify() accepts runs: 10,000 plans with other types, strides, packing, limits, epilogues, operands, bounds and
// sizes than their builder gave them. Each is refused, or the CPU executor gives the reference's bits, touches no byte
// that is not its own, and ends. Every hundred are a process of their own, so that a crash has a number.
// WEFT_MUTANT=n looks at one and saves it; WEFT_MUTANTS=n makes that many.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

#include "tests/value_mutants/guarded_run.h"
#include "tests/value_mutants/kinds.h"

namespace weft::mutants {
namespace {

constexpr std::int64_t kMutants = 10000, kBatch = 100;

enum class Verdicts : char { refused = 'r', accepted = 'a', too_large = 'l', wrong = 'w', crashed = 'c' };

struct Mutant {
  ValueKind kind{};
  Plan original, plan;
};

Mutant make_mutant(std::int64_t number) {
  Random random(0xfee10000u + static_cast<std::uint64_t>(number));
  for (;;) {
    Mutant out;
    out.kind = static_cast<ValueKind>(number % kValueKinds);
    try {
      out.original = value_base(random);
      if (auto plan = with_other_value(out.original, out.kind, random)) {
        out.plan = std::move(*plan);
        return out;
      }
    } catch (const Error&) {  // no such base, or a constant that leaves 64 bits
    }
  }
}

std::string refusal_of(const Plan& plan) {
  try {
    const Verdict verdict = verify(plan);
    return verdict.ok() ? "" : verdict.problems[0];
  } catch (const Error& e) {
    return e.code() == Code::bad_input ? e.what() : throw;
  }
}

// Limits say which rows count, and a plan that is accepted with others must make the same rows.
const Plan* same_promise(const Mutant& m) {
  return m.kind == ValueKind::limit_kind || m.kind == ValueKind::limit_peer ? &m.original : nullptr;
}

Verdicts judge(std::int64_t number, std::string* why) {
  const Mutant mutant = make_mutant(number);
  *why = refusal_of(mutant.plan);
  if (!why->empty()) return Verdicts::refused;
  if (!fits_in_a_test(mutant.plan)) return Verdicts::too_large;
  *why = differs_from_reference(mutant.plan, same_promise(mutant), static_cast<std::uint64_t>(number));
  return why->empty() ? Verdicts::accepted : Verdicts::wrong;
}

// In a process of its own: one letter per mutant through a pipe, as it is judged. What is missing has crashed.
std::string judge_batch(std::int64_t begin, std::int64_t end) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    for (std::int64_t number = begin; number < end; ++number) {
      std::string why;
      const char verdict = static_cast<char>(judge(number, &why));
      if (verdict == static_cast<char>(Verdicts::wrong)) fmt::print(stderr, "mutant {}: {}\n", number, why);
      if (write(ends[1], &verdict, 1) != 1) _exit(1);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string out;
  std::array<char, kBatch> block;
  for (ssize_t got = 0; (got = read(ends[0], block.data(), block.size())) > 0;)
    out.append(block.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return out;
}

struct Tally {
  int made = 0, refused = 0, accepted = 0, too_large = 0, wrong = 0;

  void add(Verdicts v) {
    ++made;
    refused += v == Verdicts::refused, accepted += v == Verdicts::accepted, too_large += v == Verdicts::too_large;
    wrong += v == Verdicts::wrong || v == Verdicts::crashed;
  }
};

void print(const std::array<Tally, kValueKinds>& tallies, const Tally& all) {
  const auto line = [](std::string_view name, const Tally& t) {
    fmt::print("{:16} {:7} {:8} {:16} {:17} {:6}\n", name, t.made, t.refused, t.accepted, t.too_large, t.wrong);
  };
  fmt::print("{:16} {:>7} {:>8} {:>16} {:>17} {:>6}\n", "kind", "mutants", "refused", "accepted and ran",
             "too large to run", "wrong");
  for (int i = 0; i < kValueKinds; ++i)
    line(to_string(static_cast<ValueKind>(i)), tallies[static_cast<std::size_t>(i)]);
  line("all", all);
}

void show(std::int64_t number) {
  const Mutant mutant = make_mutant(number);
  const std::string path = fmt::format("{}/value_mutant_{}.json", ::testing::TempDir(), number);
  save_plan(mutant.plan, path);
  save_plan(mutant.original, path + ".original");
  fmt::print("mutant {}: {} of {}, saved as {}\n", number, to_string(mutant.kind), mutant.original.name, path);
  std::string why;
  const Verdicts verdict = judge(number, &why);
  fmt::print("{}: {}\n", static_cast<char>(verdict), why);
}

TEST(ValueBases, AreProvedAndAgreeWithTheReference) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Plan plan = value_base(random);
    ASSERT_EQ(refusal_of(plan), "") << "base " << seed << ", " << plan.name;
    ASSERT_EQ(differs_from_reference(plan, &plan, seed), "") << "base " << seed << ", " << plan.name;
  }
}

TEST(ValueMutants, AcceptedOnesRunAsTheReference) {
  if (const char* number = std::getenv("WEFT_MUTANT")) return show(std::atoll(number));
  const char* wanted = std::getenv("WEFT_MUTANTS");
  const std::int64_t count = wanted != nullptr ? std::atoll(wanted) : kMutants;
  std::array<Tally, kValueKinds> tallies;
  Tally all;
  for (std::int64_t begin = 0; begin < count;) {
    const std::string verdicts = judge_batch(begin, std::min(count, begin + kBatch));
    const std::int64_t end = std::min(count, begin + kBatch);
    const auto judged = static_cast<std::int64_t>(verdicts.size());
    for (std::int64_t i = begin; i < std::min(end, begin + judged + 1); ++i) {
      const auto verdict =
          i < begin + judged ? static_cast<Verdicts>(verdicts[static_cast<std::size_t>(i - begin)]) : Verdicts::crashed;
      tallies[static_cast<std::size_t>(i % kValueKinds)].add(verdict);
      all.add(verdict);
      EXPECT_TRUE(verdict != Verdicts::wrong && verdict != Verdicts::crashed)
          << "mutant " << i << " is accepted, but " << (verdict == Verdicts::wrong ? "wrong" : "crashes")
          << "; WEFT_MUTANT=" << i;
    }
    begin = std::min(end, begin + judged + 1);  // after a crash: on with the next
    if (begin % 1000 == 0) fmt::print(stderr, "{} of {} mutants: {} ran\n", begin, count, all.accepted);
  }
  print(tallies, all);
  EXPECT_EQ(all.wrong, 0);
  if (wanted != nullptr) return;
  EXPECT_GE(all.accepted, count * 15 / 100);
  for (int i = 0; i < kValueKinds; ++i) {
    const Tally& t = tallies[static_cast<std::size_t>(i)];
    EXPECT_TRUE(t.refused > 0 && t.accepted > 0) << to_string(static_cast<ValueKind>(i)) << " has one verdict only";
  }
}

}  // namespace
}  // namespace weft::mutants
