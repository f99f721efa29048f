// Builders of the known schedules. All but interleaved_1f1b are of one family: stage i does warm_up[i] forwards, then
// takes turns, a forward and a backward, until no forward is left.
//
//   kind              forwards before the turns     activations held by stage i of n, at most
//   gpipe             all m                         m
//   1f1b              n - i - 1                     n - i
//   eager_1f1b        2 (n - i - 1)                 2 (n - i) - 1     hides the transfers between stages
//   zero_bubble       n - i - 1                     n                 backward is split, its weight part waits for
//                                                                     up to i micro-batches, to fill gaps
//   interleaved_1f1b  2 (n - i - 1) + (v - 1) n     one more; v chunks per stage, each 1 / v of an activation
//
// Micro-batches go forward and backward in ascending order everywhere, so gradients are summed in one order.
#pragma once

#include <string_view>
#include <vector>

#include "weft/schedule/schedule.h"

namespace weft::pipeline {

enum class Kind { gpipe, one_f_one_b, eager_1f1b, interleaved_1f1b, zero_bubble };  // one_f_one_b: "1f1b"
inline constexpr Kind kKinds[] = {Kind::gpipe, Kind::one_f_one_b, Kind::eager_1f1b, Kind::interleaved_1f1b,
                                  Kind::zero_bubble};

std::string_view to_string(Kind kind);
Kind parse_kind(std::string_view name);

enum class Backward {
  whole,
  split  // backward_input, then at once backward_weight: the gradient leaves before the weights' share is done
};
enum class Recompute { no, yes };

struct BuildOptions {
  Kind kind = Kind::one_f_one_b;
  int stages = 4, micro_batches = 8;
  int chunks = 2;  // of each stage; interleaved_1f1b alone has more than one
  // The most activations that a stage may hold, 0: any number. Fewer forwards before the turns keep to it (ramp), gpipe
  // takes the micro-batches in groups, and interleaved_1f1b, whose order is fixed, is refused where it needs more.
  int memory = 0;
  Backward backward = Backward::whole;  // zero_bubble splits it always
  Recompute recompute = Recompute::no;
};

// Throws bad_input where there is no such schedule: sizes out of range, interleaved_1f1b with micro-batches that the
// stages do not divide, a memory that it exceeds.
Schedule build(const BuildOptions& options);

// The family: stage i does warm_up[i] forwards, then turns of a forward and a backward. warm_up must not grow from one
// stage to the next, or stages wait for each other. Where `delay` is given, backward is split and stage i does the
// weight part of a micro-batch delay[i] turns after its input part.
Schedule build_turns(int micro_batches, const std::vector<int>& warm_up, const std::vector<int>& delay = {});

// Forwards before the turns that fall evenly from `first` on stage 0 to none on the last, rounded up: what is on stage
// 0 is spread over the stages behind it, so a step between two of them is what is on its way there. `first` = n - 1 is
// 1f1b, 2 (n - 1) is eager_1f1b; in between lie those that a memory of first + 1 has room for.
std::vector<int> ramp(int stages, int first);

// Every backward as backward_input and backward_weight, one right after the other.
Schedule with_split_backward(const Schedule& schedule);
// A recompute right before every backward: it needs no other stage, so it is done while the gradient is on its way.
Schedule with_recompute(const Schedule& schedule);

}  // namespace weft::pipeline
