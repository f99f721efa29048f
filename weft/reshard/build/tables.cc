#include "weft/reshard/build/tables.h"

#include <algorithm>
#include <tuple>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/reshard/build/shards.h"

namespace weft::resharding {
namespace {

const Expr r = Expr::name("r"), s = Expr::name("s"), j = Expr::name("j"), i = Expr::name("i");
const Expr row = Expr::name("row"), kids = Expr::name("kids"), begin = Expr::name("begin"), root = Expr::name("root");

// The wait for all that comes to a leaf: after everything else.
constexpr std::int64_t kLast = std::int64_t{1} << 40;
constexpr std::int64_t kKidWidth = 3;

Expr plus(const Expr& a, std::int64_t b) { return b == 0 ? a : a + b; }
Expr plus(std::int64_t a, const Expr& b) { return a == 0 ? b : Expr(a) + b; }
Expr low(int d) { return Expr::name(fmt::format("lo{}", d)); }
Expr high(int d) { return Expr::name(fmt::format("hi{}", d)); }
Expr kid(int column) { return Expr::table("kid", plus((begin + j) * kKidWidth, column)); }

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
    for (std::size_t t = 0; t < reshard_.transfers.size(); ++t)
      for (std::size_t p = 0; p < reshard_.transfers[t].parts.size(); ++p)
        add_owed(static_cast<int>(t), static_cast<int>(p));
    plan_.tables.erase(std::remove_if(plan_.tables.begin(), plan_.tables.end(),
                                      [](const NamedTable& table) { return table.values.empty(); }),
                       plan_.tables.end());
    return std::move(plan_);
  }

 private:
  enum Named { kFirst, kShard, kNode, kKid, kOpen, kDone, kOwed };
  struct Buffers {
    int destination = 0;
    std::vector<int> sources;  // one a part
    std::int64_t shard = 0;    // where the destination's rows of `shard` begin
    std::vector<std::int64_t> source_shards;
    int dims = 0;
  };

  Table& table(Named named) { return plan_.tables[named].values; }
  static std::int64_t size(const Table& table) { return std::ssize(table); }

  // A list of so many rows for each rank: where its N + 1 beginnings are in `first`.
  std::int64_t list(const std::vector<std::int64_t>& counts) {
    Table& first = table(kFirst);
    const std::int64_t at = size(first);
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) {
      first.push_back(sum);
      sum += count;
    }
    first.push_back(sum);
    return at;
  }
  static Expr first_of(std::int64_t list) { return Expr::table("first", plus(list, r)); }
  static Expr count_of(std::int64_t list) { return Expr::table("first", plus(list + 1, r)) - first_of(list); }

  int add_buffer(const std::string& name, Role role, const ShardedTensor& tensor, const std::vector<std::int64_t>& at,
                 std::int64_t* shards) {
    Table& values = table(kShard);
    *shards = size(values);
    const int dims = dims_of(tensor);
    for (int rank = 0; rank < plan_.num_ranks; ++rank) {
      const Box box = shard_of(reshard_, tensor, at, rank);
      for (int d = 0; d < dims; ++d) values.push_back(box.lo[static_cast<std::size_t>(d)]);
      for (int d = 0; d < dims; ++d) values.push_back(box.size(d));
    }
    if (role == Role::internal) return -1;  // only its places are asked for
    Buffer buffer{name, tensor.dtype, role, {}, 1, {}};
    for (int d = 0; d < dims; ++d) buffer.shape.push_back(corner(*shards, dims, r, dims + d));
    plan_.buffers.push_back(std::move(buffer));
    return int_size(plan_.buffers) - 1;
  }

  void add_buffers(std::size_t t) {
    const Transfer& transfer = reshard_.transfers[t];
    Buffers out;
    out.dims = dims_of(transfer.destination);
    for (std::size_t p = 0; p < transfer.parts.size(); ++p) {
      out.source_shards.emplace_back();
      const Role role = producer_ != nullptr ? Role::internal : Role::input;
      out.sources.push_back(add_buffer(fmt::format("src{}.{}", t, p), role, transfer.parts[p].tensor,
                                       transfer.parts[p].at, &out.source_shards.back()));
    }
    out.destination = add_buffer(fmt::format("dst{}", t), Role::output, transfer.destination, {}, &out.shard);
    buffers_.push_back(std::move(out));
  }

  void add_counters() {
    std::vector<std::int64_t> counts;
    for (const auto& done : nodes_.done) {
      counts.push_back(std::ssize(done));
      table(kDone).insert(table(kDone).end(), done.begin(), done.end());
    }
    done_list_ = list(counts);
    const auto family = [&](const char* name, Expr count, Expr total) {
      plan_.counters.push_back({name, std::move(count), std::move(total)});
      return int_size(plan_.counters) - 1;
    };
    const bool relays = std::any_of(nodes_.num_full.begin(), nodes_.num_full.end(), [](auto n) { return n > 0; });
    full_ = relays ? family("full", count_of(list(nodes_.num_full)), 1) : -1;
    open_ = family("open", count_of(list(nodes_.num_open)), 1);
    done_ =
        table(kDone).empty() ? -1 : family("done", count_of(done_list_), Expr::table("done", first_of(done_list_) + i));
  }

  void add_open() {
    std::vector<std::int64_t> counts;
    for (const auto& opens : nodes_.opens) {
      counts.push_back(std::ssize(opens));
      for (const auto& [parent, counter] : opens) table(kOpen).insert(table(kOpen).end(), {parent, counter});
    }
    if (table(kOpen).empty()) return;  // nothing leaves a rank
    const std::int64_t rows = list(counts);
    Rule rule;
    rule.name = "open";
    rule.when = gt(count_of(rows), 0);
    const auto column = [&](int c) { return Expr::table("open", plus((first_of(rows) + j) * 2, c)); };
    rule.signals = {{column(0), open_, column(1), 0, count_of(rows)}};
    plan_.rules.push_back(std::move(rule));
  }

  void add_arrive() {
    if (done_ < 0) return;
    Rule rule;
    rule.name = "arrive";
    rule.when = gt(count_of(done_list_), 0);
    rule.waits = {{done_, j, Expr::table("done", first_of(done_list_) + j), 0, 0, count_of(done_list_)}};
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

  // Where a rank's shard begins (column d) or its shape (column dims + d).
  static Expr corner(std::int64_t shards, int dims, const Expr& rank, int column) {
    return Expr::table("shard", plus(shards, plus(rank * (2 * dims), column)));
  }
  // The box of the rule, in the coordinates of a rank's shard.
  static BoxRule within(std::int64_t shards, int dims, const Expr& rank) {
    BoxRule out;
    for (int d = 0; d < dims; ++d) {
      out.lo.push_back(low(d) - corner(shards, dims, rank, d));
      out.hi.push_back(high(d) - corner(shards, dims, rank, d));
    }
    return out;
  }
  // `row` of a table of boxes, one for each s, and the box's corners.
  static std::vector<Let> box_lets(const char* name, std::int64_t rows, std::int64_t list, std::int64_t width,
                                   int dims) {
    std::vector<Let> out{{"row", plus(rows, (first_of(list) + s) * width)}};
    for (int d = 0; d < dims; ++d) out.push_back({low(d).str(), Expr::table(name, plus(row, d))});
    for (int d = 0; d < dims; ++d) out.push_back({high(d).str(), Expr::table(name, plus(row, dims + d))});
    return out;
  }

  void add_group(const Group& group) {
    const Buffers& buffers = buffers_[static_cast<std::size_t>(group.transfer)];
    const int dims = buffers.dims;
    const auto part = num(group.part);
    const std::int64_t rows = size(table(kNode));
    const std::int64_t nodes = list(write_nodes(group, dims));
    Rule rule;
    rule.name = name_of(group);
    rule.tile = group.tile;
    rule.count = count_of(nodes);
    rule.let = box_lets("node", rows, nodes, 2 * dims + 5, dims);
    const auto column = [&](int c) { return Expr::table("node", row + (2 * dims + c)); };
    rule.let.push_back({"begin", column(3)});
    rule.let.push_back({"kids", column(4)});
    const BoxRule here = within(buffers.shard, dims, r);
    const BoxRule source = group.kind == NodeKind::relay ? here : within(buffers.source_shards[part], dims, r);
    const bool makes = producer_ != nullptr && group.kind != NodeKind::relay;
    rule.box = source;
    if (makes) {
      rule.kind = ActionKind::step;
      rule.producer = 0;
      rule.finish = producer_->has_epilogue();
    } else {
      rule.sources = {{r, group.kind == NodeKind::relay ? buffers.destination : buffers.sources[part], source}};
      rule.order = column(0);
      rule.order_step = column(1);
    }
    if (group.kind == NodeKind::relay) rule.waits.push_back({full_, column(2), 1, 0, 1});
    if (group.kind == NodeKind::keep || makes)
      rule.targets.push_back(
          {r, buffers.destination, here, 1, group.kind == NodeKind::keep ? Expr(1) : ge(column(2), 0)});
    if (group.kind != NodeKind::keep) add_kids(buffers, &rule);
    plan_.rules.push_back(std::move(rule));
  }
  static Expr ge(Expr a, Expr b) { return Expr::make(Expr::Op::ge, {std::move(a), std::move(b)}); }

  void add_kids(const Buffers& buffers, Rule* rule) const {
    const Expr arrival = kid(1);
    rule->waits.push_back({open_, kid(2), 1, 0, 0, kids});
    rule->targets.push_back({kid(0), buffers.destination, within(buffers.shard, buffers.dims, kid(0)), kids});
    if (full_ >= 0) rule->signals.push_back({kid(0), full_, arrival, 1, kids, ge(arrival, 0)});
    if (done_ >= 0) rule->signals.push_back({kid(0), done_, Expr(-1) - arrival, 0, kids, lt(arrival, 0)});
  }

  std::string name_of(const Group& group) const {
    const char* what = group.kind == NodeKind::root ? "send" : group.kind == NodeKind::relay ? "pass" : "keep";
    return reshard_.transfers.size() == 1 ? what : fmt::format("{}{}", what, group.transfer);
  }

  // Rows of `node` and `kid`; how many of each rank.
  std::vector<std::int64_t> write_nodes(const Group& group, int dims) {
    std::vector<std::int64_t> counts(num(plan_.num_ranks));
    Table& values = table(kNode);
    for (const Node* node : group.nodes) {
      ++counts[static_cast<std::size_t>(node->rank)];
      values.insert(values.end(), node->box.lo.begin(), node->box.lo.begin() + dims);
      values.insert(values.end(), node->box.hi.begin(), node->box.hi.begin() + dims);
      const std::int64_t first_kid = size(table(kKid)) / kKidWidth;
      values.insert(values.end(), {node->order, node->order_step, node->full, first_kid, std::ssize(node->kids)});
      for (const Kid& k : node->kids) table(kKid).insert(table(kKid).end(), {k.rank, k.arrival, k.open});
    }
    return counts;
  }

  void add_owed(int transfer, int part) {
    const Buffers& buffers = buffers_[static_cast<std::size_t>(transfer)];
    const int dims = buffers.dims;
    std::vector<const Arrival*> mine;
    for (const Arrival& a : nodes_.arrivals)
      if (a.transfer == transfer && a.part == part) mine.push_back(&a);
    if (mine.empty()) return;
    std::stable_sort(mine.begin(), mine.end(), [](const Arrival* a, const Arrival* b) { return a->rank < b->rank; });
    std::vector<std::int64_t> counts(num(plan_.num_ranks));
    const std::int64_t rows = size(table(kOwed));
    for (const Arrival* a : mine) {
      ++counts[static_cast<std::size_t>(a->rank)];
      table(kOwed).insert(table(kOwed).end(), a->box.lo.begin(), a->box.lo.begin() + dims);
      table(kOwed).insert(table(kOwed).end(), a->box.hi.begin(), a->box.hi.begin() + dims);
      table(kOwed).push_back(a->root);
    }
    const std::int64_t boxes = list(counts);
    Owed owed;
    owed.count = count_of(boxes);
    owed.let = box_lets("owed", rows, boxes, 2 * dims + 1, dims);
    owed.let.push_back({"root", Expr::table("owed", row + 2 * dims)});
    owed.piece = {r, buffers.destination, within(buffers.shard, dims, r)};
    for (int d = 0; d < dims; ++d)
      owed.origin.push_back(low(d) - corner(buffers.source_shards[static_cast<std::size_t>(part)], dims, root, d));
    owed.first = root;
    owed.leaf = producer_ != nullptr ? 0 : -1 - buffers.sources[static_cast<std::size_t>(part)];
    owed.finished = producer_ != nullptr && producer_->has_epilogue();
    plan_.owed.push_back(std::move(owed));
  }

  const Reshard& reshard_;
  const Nodes& nodes_;
  const Producer* producer_;
  std::vector<Buffers> buffers_;
  std::int64_t done_list_ = 0;
  int full_ = -1, open_ = -1, done_ = -1;
  Plan plan_;
};

}  // namespace

Plan write_plan(const std::string& name, const Reshard& reshard, const Nodes& nodes, const Producer* producer) {
  return Writer(reshard, nodes, producer).run(name);
}

}  // namespace weft::resharding
