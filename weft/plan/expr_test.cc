#include "weft/plan/expr.h"

#include <functional>
#include <map>
#include <optional>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"
#include "weft/mesh/box.h"

namespace weft {
namespace {

using Op = Expr::Op;

const Scope kScope{{"r", "N", "s"}, {"t"}};
const std::vector<Table> kTables{{4, 9, -2, 7, 0}};

std::int64_t value_of(const Expr& e, std::array<std::int64_t, 3> slots = {3, 8, 2}) {
  return Formula(e, kScope).eval(slots, kTables);
}
std::int64_t value_of(const char* text) { return value_of(Expr::parse(text)); }

TEST(Expr, FollowsThePrecedenceOfArithmetic) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("20 - 5 - 3"), 12);
  EXPECT_EQ(value_of("100 / 7 / 2"), 7);
  EXPECT_EQ(value_of("r + 1 == 4 & s < 3"), 1);
  EXPECT_EQ(value_of("r > 3 & s < 3"), 0);
  EXPECT_EQ(value_of("-r + 5"), 2);
  EXPECT_EQ(value_of("5 - -r"), 8);
}

TEST(Expr, DividesAsMathematiciansDo) {
  EXPECT_EQ(value_of("(r - 4) % N"), 7);
  EXPECT_EQ(value_of("(r - 4) / N"), -1);
  EXPECT_EQ(value_of("up(r + 6, N)"), 2);
  EXPECT_EQ(value_of("up(r - 4, N)"), 0);
  EXPECT_EQ(value_of("min(r, s) + max(r, s)"), 5);
}

TEST(Expr, CutsIntoPartsThatDifferByAtMostOne) {
  EXPECT_EQ(value_of("cut(10, r, 0)"), 0);
  EXPECT_EQ(value_of("cut(10, r, 1)"), 4);
  EXPECT_EQ(value_of("cut(10, r, 2)"), 7);
  EXPECT_EQ(value_of("cut(10, r, 3)"), 10);
}

TEST(Expr, LooksUpTables) {
  EXPECT_EQ(value_of("t[r]"), 7);
  EXPECT_EQ(value_of("t[s - 2] + t[4]"), 4);
  EXPECT_NE(refusal([] { value_of("t[r + 2]"); }).find("outside a table"), std::string::npos);
  EXPECT_NE(refusal([] { value_of("t[s - 3]"); }).find("outside a table"), std::string::npos);
}

TEST(Expr, PrintsTheFewestBrackets) {
  for (const char* text :
       {"(r - 1 - s) % N", "r + s * N", "(r + s) * N", "r - (s - N)", "r / (s / N)", "cut(r, N, s + 1) - 1",
        "t[(r + 1) % N]", "r < s & N == 3", "up(r, s) * min(1, s)", "r - s == N"})
    EXPECT_EQ(Expr::parse(text).str(), text);
  EXPECT_EQ(Expr::parse("((r)) + (s * (N))").str(), "r + s * N");
}

TEST(Expr, FoldsWhatIsConstant) {
  EXPECT_TRUE(Expr::parse("2 * 3 + 4").is_number(10));
  EXPECT_EQ(Expr::parse("r + 0").str(), "r");
  EXPECT_EQ(Expr::parse("1 * r").str(), "r");
  EXPECT_EQ(Expr::parse("4 / 0").str(), "4 / 0");  // refused when it is evaluated
}

TEST(Expr, RefusesWhatItCannotRead) {
  for (const char* text : {"", " ", "1 +", "(1", "1)", "r s", "cut(1, 2)", "min(1, 2, 3)", "foo(1, 2)", "t[", "t[1",
                           "1..2 + #", "99999999999999999999", "@", "a b", "r ++ ", "==", "cut()", "r[1]]"})
    EXPECT_NE(refusal([&] { Expr::parse(text); }).find("cannot read expression"), std::string::npos) << text;
  refusal([] { Expr::parse(std::string(5000, '1')); });
  refusal([] { Expr::parse(std::string(2000, '(') + "1"); });
  refusal([] { Expr::parse(std::string(3000, '-') + "1"); });
  EXPECT_NE(refusal([] { value_of("q + 1"); }).find("\"q\""), std::string::npos);
  EXPECT_NE(refusal([] { value_of("u[1]"); }).find("table"), std::string::npos);
}

TEST(Expr, RefusesWhatHasNoValue) {
  for (const char* text :
       {"r / (s - 2)", "r % (s - 2)", "up(r, s - 3)", "1 / 0", "cut(r, 0, 0)", "cut(r, 2, 3)", "cut(s - 3, 2, 1)",
        "r * 9223372036854775807", "9223372036854775807 + r", "-9223372036854775807 - r"})
    EXPECT_NE(refusal([&] { value_of(text); }), "did not throw") << text;
  std::string deep = "r";
  for (int i = 0; i < 60; ++i) deep = "min(1, " + deep + ")";
  EXPECT_NE(refusal([&] { value_of(Expr::parse(deep)); }).find("nested"), std::string::npos);
}

// The obvious interpreter: the value of a tree, or nothing where there is none.
std::optional<std::int64_t> brute(const Expr& e, const std::map<std::string, std::int64_t>& names) {
  const Expr::Node& node = e.node();
  if (node.op == Op::number) return node.value;
  if (node.op == Op::name) return names.at(node.text);
  std::vector<std::int64_t> k;
  for (const Expr& kid : node.kids) {
    const auto value = brute(kid, names);
    if (!value) return {};
    k.push_back(*value);
  }
  const auto fits = [](__int128 v) -> std::optional<std::int64_t> {
    if (v < INT64_MIN || v > INT64_MAX) return {};
    return static_cast<std::int64_t>(v);
  };
  const auto floor = [&] { return (k[0] - ((k[0] % k[1]) + k[1]) % k[1]) / k[1]; };
  switch (node.op) {
    case Op::table:
      return k[0] < 0 || k[0] >= 5 ? std::nullopt : std::optional(kTables[0][k[0]]);
    case Op::add:
      return fits(static_cast<__int128>(k[0]) + k[1]);
    case Op::sub:
      return fits(static_cast<__int128>(k[0]) - k[1]);
    case Op::mul:
      return fits(static_cast<__int128>(k[0]) * k[1]);
    case Op::div:
      return k[1] <= 0 ? std::nullopt : std::optional(floor());
    case Op::mod:
      return k[1] <= 0 ? std::nullopt : std::optional(k[0] - floor() * k[1]);
    case Op::up:
      return k[1] <= 0 ? std::nullopt : std::optional(floor() + (floor() * k[1] != k[0]));
    case Op::eq:
      return k[0] == k[1];
    case Op::ne:
      return k[0] != k[1];
    case Op::lt:
      return k[0] < k[1];
    case Op::le:
      return k[0] <= k[1];
    case Op::gt:
      return k[0] > k[1];
    case Op::ge:
      return k[0] >= k[1];
    case Op::both:
      return k[0] != 0 && k[1] != 0;
    case Op::min:
      return std::min(k[0], k[1]);
    case Op::max:
      return std::max(k[0], k[1]);
    case Op::cut:
      if (k[1] <= 0 || k[0] < 0 || k[2] < 0 || k[2] > k[1]) return {};
      return cut(k[0], k[1], k[2]);
    default:
      return {};
  }
}

class RandomExpr {
 public:
  Expr make(int depth) {
    if (depth == 0 || below(5) == 0) return leaf();
    const auto op = static_cast<Op>(below(static_cast<int>(Op::max) + 1));
    if (op == Op::number || op == Op::name) return leaf();
    if (op == Op::table) return Expr::table("t", make(depth - 1));
    std::vector<Expr> kids{make(depth - 1), make(depth - 1)};
    if (op == Op::cut) kids.push_back(make(depth - 1));
    return Expr::make(op, std::move(kids));
  }
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

 private:
  Expr leaf() {
    static const char* names[] = {"r", "N", "s"};
    return below(2) ? Expr(below(12) - 2) : Expr::name(names[below(3)]);
  }
  std::mt19937 random_{7};
};

TEST(Expr, RandomTreesPrintParseAndEvaluateAlike) {
  RandomExpr random;
  int valued = 0;
  for (int round = 0; round < 20000; ++round) {
    const Expr e = random.make(4);
    const Expr back = Expr::parse(e.str());
    EXPECT_EQ(back.str(), e.str());
    const std::array<std::int64_t, 3> slots{random.below(9), 1 + random.below(9), random.below(9)};
    const auto want = brute(e, {{"r", slots[0]}, {"N", slots[1]}, {"s", slots[2]}});
    try {
      EXPECT_EQ(value_of(e, slots), value_of(back, slots));
      EXPECT_EQ(value_of(e, slots), want) << e.str();
      ++valued;
    } catch (const Error&) {
      EXPECT_FALSE(want) << e.str();
    }
  }
  EXPECT_GT(valued, 8000);
}

}  // namespace
}  // namespace weft
