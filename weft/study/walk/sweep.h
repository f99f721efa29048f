// Two walks over shapes. The axis: compute to communication from 0.1 to 10, one op, sequential against panels against
// fused. The sweep: outputs of 4 KB to 64 MB, thin and fat, `auto` against every route and sequential in each cell:
// never slower, or the cell is named.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/study/measure.h"
#include "weft/study/op_request.h"
#include "weft/study/report/measured.h"

namespace weft {

class World;

// What is being measured, and how far the walk is; of == 0: not known.
using WalkProgress = std::function<void(const std::string& what, int done, int of)>;

struct SweepShape {
  std::int64_t bytes = 0;  // of output, or of what is gathered
  std::int64_t depth = 0;  // what makes it fat: k; ag-gemm: n; embedding: pooling
  OpSpec spec;
};
// The cells of an op, smallest first. Those whose weights would not fit a small memory are left out.
std::vector<SweepShape> sweep_cells(const OpRequest& flags, int max_ranks);

struct SweepResult {
  SweepShape cell;
  Measurement m;

  // The best of the routes asked for by name and of sequential; and how long `auto` takes beside it.
  std::string best() const;
  double best_us() const;
  double ratio() const { return m.fused_us / best_us(); }
  bool holds() const;  // ratio <= max(1.05, 1 + A/A band)
};

std::vector<SweepResult> sweep(World& world, const std::vector<SweepShape>& cells, const MeasureOptions& options,
                               const WalkProgress& progress);
std::string sweep_text(const std::vector<SweepResult>& results, const ReportContext& context);
std::string sweep_json(const std::vector<SweepResult>& results, const ReportContext& context);
std::string sweep_svg(const std::vector<SweepResult>& results, const ReportContext& context);

// Shapes whose compute is about so many times the communication, found from a first measurement.
struct AxisPoint {
  double wanted = 0;  // compute : communication
  OpSpec spec;
  Measurement m;
};
inline constexpr std::string_view kWholeAxis = "0.1,0.2,0.35,0.5,1,2,3.5,5,10";
std::vector<double> parse_ratios(std::string_view text);  // "0.5,1,2"
std::vector<AxisPoint> walk_axis(World& world, const OpRequest& flags, int max_ranks, const std::vector<double>& ratios,
                                 const MeasureOptions& options, const WalkProgress& progress);
std::string axis_text(const std::vector<AxisPoint>& points, const ReportContext& context);
std::string axis_json(const std::vector<AxisPoint>& points, const ReportContext& context);
std::string axis_svg(const std::vector<AxisPoint>& points, const ReportContext& context);

}  // namespace weft
