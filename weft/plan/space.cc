#include "weft/plan/space.h"

#include "weft/base/names.h"

namespace weft {
namespace {

constexpr Names<SpaceKind, 6> kSpaceKinds{{{SpaceKind::keep, "keep"},
                                           {SpaceKind::reduce_scatter, "reduce_scatter"},
                                           {SpaceKind::all_reduce, "all_reduce"},
                                           {SpaceKind::all_gather, "all_gather"},
                                           {SpaceKind::all_to_all, "all_to_all"},
                                           {SpaceKind::broadcast, "broadcast"}}};
constexpr Names<Route, 12> kRoutes{{{Route::automatic, "auto"},
                                    {Route::local, "local"},
                                    {Route::ring, "ring"},
                                    {Route::direct, "direct"},
                                    {Route::one_shot, "one_shot"},
                                    {Route::two_shot, "two_shot"},
                                    {Route::ring_shot, "ring_shot"},
                                    {Route::chain, "chain"},
                                    {Route::staged, "staged"},
                                    {Route::two_level, "two_level"},
                                    {Route::halving_doubling, "halving_doubling"},
                                    {Route::torus, "torus"}}};

Space make(SpaceKind kind, const Mesh& mesh, std::string_view axis, const SpaceOptions& options) {
  mesh.axis(axis);  // throws where there is none
  return {kind, mesh, std::string(axis), options};
}

}  // namespace

std::string_view to_string(SpaceKind kind) { return name_of(kSpaceKinds, kind); }
std::string_view to_string(Route route) { return name_of(kRoutes, route); }
Route parse_route(std::string_view name) { return parse_name(kRoutes, "route", name); }

Space keep() { return {}; }
Space reduce_scatter(const Mesh& mesh, std::string_view axis, const SpaceOptions& options) {
  return make(SpaceKind::reduce_scatter, mesh, axis, options);
}
Space all_reduce(const Mesh& mesh, std::string_view axis, const SpaceOptions& options) {
  return make(SpaceKind::all_reduce, mesh, axis, options);
}
Space all_gather(const Mesh& mesh, std::string_view axis, const SpaceOptions& options) {
  return make(SpaceKind::all_gather, mesh, axis, options);
}
Space all_to_all(const Mesh& mesh, std::string_view axis, const SpaceOptions& options) {
  return make(SpaceKind::all_to_all, mesh, axis, options);
}
Space broadcast(const Mesh& mesh, std::string_view axis, const SpaceOptions& options) {
  return make(SpaceKind::broadcast, mesh, axis, options);
}

}  // namespace weft
