#include "weft/world/style.h"

#include "weft/base/names.h"

namespace weft {
namespace {

constexpr Names<Style, 4> kStyleNames{{{Style::sequential, "sequential"},
                                       {Style::panels, "panels"},
                                       {Style::fused, "fused"},
                                       {Style::compute, "compute"}}};

}  // namespace

const char* to_string(Style style) { return name_of(kStyleNames, style).data(); }

Style parse_style(std::string_view name) {
  if (name == "decomposed") return Style::panels;
  if (name == "alone") return Style::compute;
  return parse_name(kStyleNames, "style", name);
}

}  // namespace weft
