// What the devices of a run do, tile by tile, read from the plan that executors run. Nothing is built here that the
// plan does not say: steps in listed order, lanes, waits, sources, targets and signals are its own.
//
// By default one device stands for all. Ranks follow the same rules, so what rank r sends to r + d in its action a, the
// rank r - d sends to r in the same action: its signals are read from that rank's program, and this device's sends
// arrive at itself. `every` simulates all of them; a test has both agree.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/plan/program.h"

namespace weft::sim {

enum class Devices { one, every };
enum class Waits { tile, chunk };  // chunk: a collective in steps, each beginning when all of the last has come

// A half-open range of one of Work's arrays.
struct Part {
  std::int32_t begin = 0, end = 0;
  std::int32_t size() const { return end - begin; }
};

struct WorkSignal {
  std::int32_t counter = 0;  // on the device that is signalled
  std::int32_t per = 0;      // lanes that share one counter; 0: all
};

struct WorkTarget {
  std::int32_t from = 0, device = 0;  // numbers of devices
  bool remote = false;
  Part signals;
};

struct WorkAction {
  ActionKind kind = ActionKind::step;
  std::int32_t rule = 0, turn = 0;  // where in the plan it comes from
  std::int32_t sources = 0;
  Part lanes, targets, own_signals;
};

struct WorkLane {
  std::int32_t action = 0;
  std::int32_t index = 0;                     // in its action
  std::int32_t row_panel = 0, col_panel = 0;  // which rows and columns of the operands it needs
  std::int32_t rows = 0, cols = 0;
  std::int32_t gate = 0;  // itself; Waits::chunk: its action, whose lanes wait together
};

struct Watch {  // a gate that waits for a counter
  std::int32_t counter = 0, gate = 0;
  std::uint32_t at = 0;
};

struct DeviceWork {
  std::vector<WorkAction> actions;
  std::vector<WorkLane> lanes;
  std::vector<std::int32_t> steps;        // lanes in the order in which they are claimed
  std::vector<Watch> watches;             // by counter
  std::vector<std::int32_t> first_watch;  // of every counter, and the end
  std::vector<std::int32_t> waits_of_gate;
  std::vector<std::int32_t> row_size, col_size;  // of every panel
};

struct Work {
  std::vector<DeviceWork> devices;
  std::vector<WorkTarget> targets;  // of all devices
  std::vector<WorkSignal> signals;
  Producer producer;
};

// Throws bad_input where one device cannot stand for all, as the ranks' rules differ in shape; use Devices::every.
struct ReadOptions {
  Devices devices = Devices::one;
  Waits waits = Waits::tile;
  std::int64_t raster_cols = 0;  // see Chip
  bool keep = false;             // only the steps, whose tiles stay here: the producer alone, same tiles, same order
};
Work read_work(const Plan& plan, const ReadOptions& options);

}  // namespace weft::sim
