#include "weft/plan/plan.h"

#include "weft/base/index.h"
#include "weft/base/names.h"

namespace weft {
namespace {

constexpr Names<ActionKind, 2> kActionKinds{{{ActionKind::step, "step"}, {ActionKind::trigger, "trigger"}}};
constexpr Names<Purpose, 3> kPurposes{{{Purpose::data, "data"}, {Purpose::open, "open"}, {Purpose::credit, "credit"}}};
constexpr Names<Role, 3> kRoles{{{Role::input, "input"}, {Role::output, "output"}, {Role::internal, "internal"}}};
constexpr Names<Sum, 2> kSums{{{Sum::listed, "listed"}, {Sum::any, "any"}}};
constexpr Names<Limit, 3> kLimits{{{Limit::none, "none"}, {Limit::rows, "rows"}, {Limit::peer, "peer"}}};

template <typename List>
int find_by_name(const List& list, std::string_view name) {
  for (int i = 0; i < int_size(list); ++i)
    if (list[at(i)].name == name) return i;
  return -1;
}

}  // namespace

int Plan::buffer(std::string_view name) const { return find_by_name(buffers, name); }
int Plan::counter(std::string_view name) const { return find_by_name(counters, name); }
std::vector<std::string> Plan::outputs() const {
  std::vector<std::string> out;
  for (const Buffer& b : buffers)
    if (b.role == Role::output) out.push_back(b.name);
  return out;
}

Scope scope_of(const Plan& plan) {
  Scope scope{{kOwnNames.begin(), kOwnNames.end()}, {}};
  for (const Param& p : plan.params) scope.names.push_back(p.name);
  for (const NamedTable& t : plan.tables) scope.tables.push_back(t.name);
  return scope;
}

std::string_view to_string(ActionKind kind) { return name_of(kActionKinds, kind); }
std::string_view to_string(Purpose purpose) { return name_of(kPurposes, purpose); }
std::string_view to_string(Role role) { return name_of(kRoles, role); }
std::string_view to_string(Sum sum) { return name_of(kSums, sum); }
std::string_view to_string(Limit limit) { return name_of(kLimits, limit); }
ActionKind parse_action_kind(std::string_view name) { return parse_name(kActionKinds, "kind of rule", name); }
Purpose parse_purpose(std::string_view name) { return parse_name(kPurposes, "purpose", name); }
Role parse_role(std::string_view name) { return parse_name(kRoles, "role", name); }
Sum parse_sum(std::string_view name) { return parse_name(kSums, "sum", name); }
Limit parse_limit(std::string_view name) { return parse_name(kLimits, "limit", name); }

}  // namespace weft
