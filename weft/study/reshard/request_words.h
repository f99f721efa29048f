// The words of a reshard that somebody asks for: shapes, meshes, layouts, ranks, parts. Each throws bad_input: one
// sentence that names flag, value and remedy.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/mesh/mesh.h"
#include "weft/mesh/sharding.h"

namespace weft {

inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;

Shape parse_shape(std::string_view text);  // "1024,1024,512"
// "2x4", "8", "dp=2,tp=4" or "dp=2,tp=4@2", with the number of hosts behind; else the first of several axes are hosts.
Mesh parse_mesh(const std::string& text, std::string_view flag);
Sharding parse_spec(const std::string& text, const Mesh& mesh, std::string_view flag);  // "R,S0,R"
std::vector<int> parse_ranks(std::string_view text);                                    // "4-11" or "0,2,4-7"
double parse_scale(const std::string& text);                                            // "1/64"; 1 where it is empty

}  // namespace weft
