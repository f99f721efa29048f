// A chart described in JSON, for programs that are not written in C++: the pages of docs/results draw through it.
//
//   {"chart": "line", "title": "hidden over link rates",
//    "x": {"label": "Mbit/s", "kind": "log"}, "y": {"label": "hidden", "min": 0},
//    "series": [{"name": "gemm-rs", "points": [[50, 0.93], [1000, 0.9, 0.88, 0.92]]}],
//    "bands": [{"low": 0.9, "high": 0.9, "label": "wanted"}]}
//
// All charts have title, subtitle and width; line and bar charts have height. An axis has label, kind (linear, log),
// unit (plain, bytes, seconds, percent), min and max.
//   line  x, y: axes; series: name, points [x, y] or [x, y, low, high], labels (one per point), dashed, marked; bands
//   bar   y: axis; series: names; groups: name and one value per series; stacked; base
//   heat  x, y: label and ticks (names); values row by row from the bottom; middle, better (more, less), decimals,
//         value_label
// A number may be null: then nothing is drawn there.
#pragma once

#include <string>
#include <string_view>

namespace weft::draw {

// The SVG. `where` is what errors begin with, as the file's name. Throws bad_input for what is no chart.
std::string chart_from_json(std::string_view text, std::string_view where);

}  // namespace weft::draw
