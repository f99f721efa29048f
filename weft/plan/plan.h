// A plan is data: buffers, counters, and rules that every rank expands into its own steps and triggers.
// Builders write plans, verify() proves them, executors and the simulator read them; nothing else crosses between.
//
//   step     makes the tiles of one box of a producer's output, in listed order:
//            result = ((source0 + source1) + ...) + tile, the tile made from zero; stored to every target
//   trigger  fires once its waits are met, in any order: result = (source0 + source1) + ...; no source: only signals
//   lanes    both work tile by tile ("lane" i is tile i of the box, row-major); waits and signals can be per lane
//   signal   adds 1 to a counter of some rank after each lane; it covers what that lane wrote to that rank
//   wait     in run e: counter >= (e - lag) * total + at; only counters of the waiting rank; before every lane
//
// A rank starts run e + 1 of a plan only when all its own steps and triggers of run e have ended, and what it sends to
// a rank in run e lands there before what it sends there in run e + 1 (the drain rule). So `output complete` means `my
// own actions are done`, and everything of run e precedes everything of run e + 1 on a rank. docs/plan.md has the
// format, the promises and their proof.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/mesh/box.h"
#include "weft/plan/expr.h"
#include "weft/plan/producer.h"
#include "weft/plan/space.h"

namespace weft {

inline constexpr int kPlanFormat = 2;

enum class Role {
  input,
  output,
  internal
};  // input: the caller's memory; output: the caller reads it until the next run
enum class ActionKind { step, trigger };
enum class Sum { listed, any };

// Stored tile by tile, every tile contiguous and padded to full size: rows 8 KB apart would alias in L1.
// Blocks of `block_rows` rows each start a new grid of tiles.
struct Packing {
  Expr block_rows;
  std::int64_t tile_rows = 0, tile_cols = 0;  // 0: not packed, row-major
};

struct Buffer {
  std::string name;
  Dtype dtype = Dtype::f32;  // also the format on the wire
  Role role = Role::internal;
  std::vector<Expr> shape;  // may depend on r: only the index of a buffer is symmetric
  int depth = 1;            // run e uses copy e % depth
  Packing packing;
};

// What a counter counts.
//   data    that something is there, or has been used
//   open    that an output may be written in this run: its rank has begun it
//   credit  that an inbox may be written again: its rank has used what was in it
enum class Purpose { data, open, credit };

struct Counter {
  std::string name;  // for people
  Expr count = 1;    // counters of this family on rank r
  Expr total = 1;    // growth of counter i of rank r in one run
  Purpose purpose = Purpose::data;
};

struct Let {
  std::string name;
  Expr value;
};

struct BoxRule {
  std::vector<Expr> lo, hi;
};

// `each` and `when` make a list of one rule: for j in 0 .. each - 1, where `when` is not 0.
struct WaitRule {
  int counter = 0;
  Expr index = 0, at = 1;
  int lag = 0;
  Expr per = 0;  // lanes that share one counter: lane i waits for index + i / per; 0: every lane waits for `index`
  Expr each = 1, when = 1;
};

struct PieceRule {
  Expr rank = Expr::name("r");
  int buffer = 0;
  BoxRule box;
  Expr each = 1, when = 1;
};

struct SignalRule {
  Expr rank;
  int counter = 0;
  Expr index = 0;
  Expr per = 0;  // as in WaitRule
  Expr each = 1, when = 1;
};

// How run-time counts shorten an action: rows of its box beyond the count are skipped, but signal.
enum class Limit { none, rows, peer };  // rows: one count of output rows; peer: a count for `limit_peer`

struct Rule {
  std::string name;
  ActionKind kind = ActionKind::trigger;
  Expr count = 1;  // s in 0 .. count - 1
  Expr when = 1;
  std::vector<Let> let;
  int producer = -1;  // steps only
  BoxRule box;        // the logical box of output that this action is about; empty: one lane, no data
  std::array<std::int64_t, 2> tile{0, 0};  // lanes cut dimensions 0 and 1 of the box; 0: uncut
  std::vector<WaitRule> waits;
  // Steps whose producer takes its rows x from a buffer: cut by rows only. Rows of an input keep their number, or,
  // where the output has more than m rows, are stacked by rank: output row q * m + i is made from row i of rank q.
  std::vector<PieceRule> reads;
  std::vector<PieceRule> sources;
  std::vector<PieceRule> targets;
  std::vector<SignalRule> signals;
  Expr finish = 0;  // not 0: the producer's epilogue is applied before the store
  Limit limit = Limit::none;
  Expr limit_peer = 0;
  // Triggers of plans with no use for "any order": of the lanes that are ready, the one with the lowest
  // order + lane * order_step goes first. A wish that changes no promise; 0 everywhere: executors choose.
  Expr order = 0, order_step = 0;
};

// What a rank must find in a buffer at the end of a run: for s in 0 .. count - 1, `piece` of rank r holds the
// sum over the ranks first, first + 1, ... (mod N), `contributors` of them, folded in that order, of `leaf` at
// `origin`. Where ranks share hosts, L = `ranks_per_host` of them each, a sum over all ranks may go host by host. Rank
// `first` is l of host h. The sums of the hosts h, h + 1, ... but the last, each folded over its ranks l, l + 1, ...
// (mod L), are folded in that order, and then the last host's contributions one by one. L = 1 is the flat order.
struct Owed {
  Expr count = 1, when = 1;
  std::vector<Let> let;
  PieceRule piece;
  std::vector<Expr> origin;  // where the piece begins in the contributors' coordinates
  Expr first = 0, contributors = 1, ranks_per_host = 1;
  int leaf = 0;  // >= 0: tiles of that producer; < 0: the input buffer -1 - leaf
  bool finished = false;
  int epilogue = -1;  // whose; -1: that of the producer `leaf`, or of the first where the leaf is an input
};

struct NamedTable {
  std::string name;
  Table values;
};
struct Param {
  std::string name;
  std::int64_t value = 0;
};

struct Plan {
  std::string name;            // for people
  std::optional<Route> route;  // none: a plan that has several, or none, as a reshard
  int num_ranks = 1;
  std::vector<Param> params;
  std::vector<NamedTable> tables;
  std::vector<Producer> producers;
  std::vector<Buffer> buffers;
  std::vector<Counter> counters;
  std::vector<Rule> rules;  // a rank's steps are claimed in this order
  std::vector<Owed> owed;
  Sum sum = Sum::listed;
  std::string why;  // why this route, for people

  int buffer(std::string_view name) const;  // index, -1 where there is none
  int counter(std::string_view name) const;
  std::vector<std::string> outputs() const;  // names of the buffers that the caller reads, in their order
};

// What an expression can name in every plan: the rank, how many there are, a rule's loop, the place in a list of one
// rule (`each`), and a counter's place in its family.
inline constexpr std::array<std::string_view, 5> kOwnNames{"r", "N", "s", "j", "i"};
// Those and the params, in this order; the tables.
Scope scope_of(const Plan& plan);

std::string_view to_string(ActionKind kind);
std::string_view to_string(Purpose purpose);
std::string_view to_string(Role role);
std::string_view to_string(Sum sum);
std::string_view to_string(Limit limit);
ActionKind parse_action_kind(std::string_view name);
Purpose parse_purpose(std::string_view name);
Role parse_role(std::string_view name);
Sum parse_sum(std::string_view name);
Limit parse_limit(std::string_view name);

}  // namespace weft
