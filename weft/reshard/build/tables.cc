#include "weft/reshard/build/tables.h"

#include <algorithm>
#include <tuple>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/plan/rule_words.h"
#include "weft/reshard/build/columns.h"
#include "weft/reshard/build/shards.h"

namespace weft::resharding {
namespace {

const Expr r = Expr::name("r"), j = Expr::name("j"), i = Expr::name("i");
const Expr row = Expr::name("row"), kids = Expr::name("kids"), begin = Expr::name("begin"), root = Expr::name("root");

// The wait for all that comes to a leaf: after everything else.
constexpr std::int64_t kLast = std::int64_t{1} << 40;

Expr ge(Expr a, Expr b) { return Expr::make(Expr::Op::ge, {std::move(a), std::move(b)}); }

// Nodes that one rule speaks of.
struct Group {
  NodeKind kind = NodeKind::root;
  int transfer = 0, part = 0;
  std::array<std::int64_t, 2> tile{};
  std::vector<const Node*> nodes;  // by rank, then by order
};

class Writer {
 public:
  Writer(const Reshard& reshard, const Nodes& nodes, const Producer* producer)
      : reshard_(reshard), nodes_(nodes), producer_(producer) {
    plan_.num_ranks = reshard.num_ranks;
    plan_.tables = {{"first", {}}, {"shard", {}}, {"node", {}}, {"kid", {}}, {"open", {}}, {"done", {}}, {"owed", {}}};
    if (producer != nullptr) plan_.producers.push_back(*producer);
  }

  Plan run(const std::string& name) {
    plan_.name = name;
    for (std::size_t t = 0; t < reshard_.transfers.size(); ++t) add_buffers(t);
    add_counters();
    add_open();
    for (const Group& group : groups()) add_group(group);
    add_arrive();
    for (int t = 0; t < int_size(reshard_.transfers); ++t)
      for (int p = 0; p < int_size(reshard_.transfers[at(t)].parts); ++p) add_owed(t, p);
    std::erase_if(plan_.tables, [](const NamedTable& table) { return table.values.empty(); });
    return std::move(plan_);
  }

 private:
  enum Named { kFirst, kShard, kNode, kKid, kOpen, kDone, kOwed };
  struct Buffers {
    int destination = 0;
    std::vector<int> sources;  // one for each part
    ShardRows shards;          // of the destination
    std::vector<ShardRows> source_shards;
  };

  Table& table(Named named) { return plan_.tables[named].values; }

  // So many rows for each rank.
  RankRows rank_rows(const std::vector<std::int64_t>& counts) {
    Table& first = table(kFirst);
    const RankRows rows{std::ssize(first)};
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) {
      first.push_back(sum);
      sum += count;
    }
    first.push_back(sum);
    return rows;
  }

  ShardRows add_shards(const ShardedTensor& tensor, const std::vector<std::int64_t>& corner) {
    Table& cells = table(kShard);
    const ShardRows rows{std::ssize(cells), dims_of(tensor)};
    for (int rank = 0; rank < plan_.num_ranks; ++rank) {
      const Box box = shard_of(reshard_, tensor, corner, rank);
      for (int d = 0; d < rows.dims; ++d) cells.push_back(box.lo[at(d)]);
      for (int d = 0; d < rows.dims; ++d) cells.push_back(box.size(d));
    }
    return rows;
  }

  int add_buffer(const std::string& name, Role role, Dtype dtype, const ShardRows& shards) {
    Buffer buffer{name, dtype, role, {}, 1, {}};
    for (int d = 0; d < shards.dims; ++d) buffer.shape.push_back(shards.size_of(r, d));
    plan_.buffers.push_back(std::move(buffer));
    return int_size(plan_.buffers) - 1;
  }

  // What a producer makes is in no buffer: of its shards only the places are asked for.
  void add_buffers(std::size_t t) {
    const Transfer& transfer = reshard_.transfers[t];
    Buffers out;
    for (std::size_t p = 0; p < transfer.parts.size(); ++p) {
      const Part& part = transfer.parts[p];
      out.source_shards.push_back(add_shards(part.tensor, part.at));
      out.sources.push_back(producer_ != nullptr ? -1
                                                 : add_buffer(fmt::format("src{}.{}", t, p), Role::input,
                                                              part.tensor.dtype, out.source_shards.back()));
    }
    out.shards = add_shards(transfer.destination, {});
    out.destination = add_buffer(fmt::format("dst{}", t), Role::output, transfer.destination.dtype, out.shards);
    buffers_.push_back(std::move(out));
  }

  void add_counters() {
    std::vector<std::int64_t> counts;
    for (const auto& done : nodes_.done) {
      counts.push_back(std::ssize(done));
      table(kDone).insert(table(kDone).end(), done.begin(), done.end());
    }
    done_rows_ = rank_rows(counts);
    const auto family = [&](const char* name, Expr count, Expr total) {
      plan_.counters.push_back({name, std::move(count), std::move(total)});
      return int_size(plan_.counters) - 1;
    };
    const bool relays = std::any_of(nodes_.num_full.begin(), nodes_.num_full.end(), [](auto n) { return n > 0; });
    full_ = relays ? family("full", rank_rows(nodes_.num_full).count(), 1) : -1;
    open_ = family("open", rank_rows(nodes_.num_open).count(), 1);
    plan_.counters[open_].purpose = Purpose::open;
    done_ = table(kDone).empty() ? -1 : family("done", done_rows_.count(), done_total(i));
  }
  Expr done_total(const Expr& counter) const { return Expr::table("done", done_rows_.first() + counter); }

  void add_open() {
    std::vector<std::int64_t> counts;
    for (const auto& opens : nodes_.opens) {
      counts.push_back(std::ssize(opens));
      for (const auto& [rank, counter] : opens) append<ParentRow>({rank, counter}, &table(kOpen));
    }
    if (table(kOpen).empty()) return;  // nothing leaves a rank
    const RankRows rows = rank_rows(counts);
    const auto parent = columns<ParentRow>("open", (rows.first() + j) * kWidth<ParentRow>);
    Rule rule;
    rule.name = "open";
    rule.when = gt(rows.count(), 0);
    rule.signals = {signal(parent.rank, open_).index(parent.counter).each(rows.count())};
    plan_.rules.push_back(std::move(rule));
  }

  void add_arrive() {
    if (done_ < 0) return;
    Rule rule;
    rule.name = "arrive";
    rule.when = gt(done_rows_.count(), 0);
    rule.waits = {wait(done_).index(j).reaches(done_total(j)).each(done_rows_.count())};
    rule.order = kLast;
    plan_.rules.push_back(std::move(rule));
  }

  std::vector<Group> groups() const {
    std::vector<Group> out;
    std::map<std::tuple<int, int, int, std::int64_t, std::int64_t>, std::size_t> known;
    for (const Node& node : nodes_.nodes) {
      const int part = node.kind == NodeKind::relay ? 0 : node.part;  // relays read the destination, whatever the part
      const auto [found, fresh] =
          known.try_emplace({node.transfer, static_cast<int>(node.kind), part, node.tile[0], node.tile[1]}, out.size());
      if (fresh) out.push_back({node.kind, node.transfer, part, node.tile, {}});
      out[found->second].nodes.push_back(&node);
    }
    return out;
  }

  void add_group(const Group& group) {
    const Buffers& buffers = buffers_[at(group.transfer)];
    const int dims = buffers.shards.dims;
    const std::int64_t cell = std::ssize(table(kNode));
    const RankRows rows = rank_rows(write_nodes(group, dims));
    const auto node = columns<NodeRow>("node", row, 2 * dims);
    Rule rule;
    rule.name = name_of(group);
    rule.tile = group.tile;
    rule.count = rows.count();
    rule.let = box_lets("node", cell, rows, 2 * dims + kWidth<NodeRow>, dims);
    rule.let.push_back({"begin", node.first_kid});
    rule.let.push_back({"kids", node.num_kids});
    const bool relays = group.kind == NodeKind::relay, keeps = group.kind == NodeKind::keep;
    const bool makes = producer_ != nullptr && !relays;
    const BoxRule here = buffers.shards.within(r);
    rule.box = relays ? here : buffers.source_shards[at(group.part)].within(r);
    if (makes) {
      rule.kind = ActionKind::step;
      rule.producer = 0;
      rule.finish = producer_->has_epilogue();
    } else {
      rule.sources = {piece(relays ? buffers.destination : buffers.sources[at(group.part)], rule.box)};
      rule.order = node.order;
      rule.order_step = node.order_step;
    }
    if (relays) rule.waits.push_back(wait(full_).index(node.full).per_lane());
    if (keeps || makes)
      rule.targets.push_back(piece(buffers.destination, here).when(keeps ? Expr(1) : ge(node.full, 0)));
    if (!keeps) add_kids(buffers, &rule);
    plan_.rules.push_back(std::move(rule));
  }

  void add_kids(const Buffers& buffers, Rule* rule) const {
    const auto kid = columns<KidRow>("kid", (begin + j) * kWidth<KidRow>);
    rule->waits.push_back(wait(open_).index(kid.open).each(kids));
    rule->targets.push_back(piece(buffers.destination, buffers.shards.within(kid.rank)).of(kid.rank).each(kids));
    if (full_ >= 0)
      rule->signals.push_back(
          signal(kid.rank, full_).index(kid.arrival).per_lane().each(kids).when(ge(kid.arrival, 0)));
    if (done_ >= 0)
      rule->signals.push_back(
          signal(kid.rank, done_).index(Expr(-1) - kid.arrival).each(kids).when(lt(kid.arrival, 0)));
  }

  std::string name_of(const Group& group) const {
    const char* what = group.kind == NodeKind::root ? "send" : group.kind == NodeKind::relay ? "pass" : "keep";
    return reshard_.transfers.size() == 1 ? what : fmt::format("{}{}", what, group.transfer);
  }

  // Rows of `node` and `kid`; how many of each rank.
  std::vector<std::int64_t> write_nodes(const Group& group, int dims) {
    std::vector<std::int64_t> counts(num(plan_.num_ranks));
    for (const Node* node : group.nodes) {
      ++counts[at(node->rank)];
      append(node->box, dims, &table(kNode));
      append<NodeRow>({.order = node->order,
                       .order_step = node->order_step,
                       .full = node->full,
                       .first_kid = std::ssize(table(kKid)) / kWidth<KidRow>,
                       .num_kids = std::ssize(node->kids)},
                      &table(kNode));
      for (const Kid& kid : node->kids)
        append<KidRow>({.rank = kid.rank, .arrival = kid.arrival, .open = kid.open}, &table(kKid));
    }
    return counts;
  }

  void add_owed(int transfer, int part) {
    const Buffers& buffers = buffers_[at(transfer)];
    const int dims = buffers.shards.dims;
    std::vector<const Arrival*> mine;
    for (const Arrival& a : nodes_.arrivals)
      if (a.transfer == transfer && a.part == part) mine.push_back(&a);
    if (mine.empty()) return;
    std::stable_sort(mine.begin(), mine.end(), [](const Arrival* a, const Arrival* b) { return a->rank < b->rank; });
    std::vector<std::int64_t> counts(num(plan_.num_ranks));
    const std::int64_t cell = std::ssize(table(kOwed));
    for (const Arrival* a : mine) {
      ++counts[at(a->rank)];
      append(a->box, dims, &table(kOwed));
      append<OwedRow>({a->root}, &table(kOwed));
    }
    const RankRows rows = rank_rows(counts);
    Owed owed;
    owed.count = rows.count();
    owed.let = box_lets("owed", cell, rows, 2 * dims + kWidth<OwedRow>, dims);
    owed.let.push_back({"root", columns<OwedRow>("owed", row, 2 * dims).root});
    owed.piece = piece(buffers.destination, buffers.shards.within(r));
    for (int d = 0; d < dims; ++d) owed.origin.push_back(box_low(d) - buffers.source_shards[at(part)].low_of(root, d));
    owed.first = root;
    owed.leaf = producer_ != nullptr ? 0 : -1 - buffers.sources[at(part)];
    owed.finished = producer_ != nullptr && producer_->has_epilogue();
    plan_.owed.push_back(std::move(owed));
  }

  const Reshard& reshard_;
  const Nodes& nodes_;
  const Producer* producer_;
  std::vector<Buffers> buffers_;
  RankRows done_rows_;
  int full_ = -1, open_ = -1, done_ = -1;
  Plan plan_;
};

}  // namespace

Plan write_plan(const std::string& name, const Reshard& reshard, const Nodes& nodes, const Producer* producer) {
  return Writer(reshard, nodes, producer).run(name);
}

}  // namespace weft::resharding
