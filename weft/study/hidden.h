// How much of the communication that could be hidden was hidden, and when that figure cannot be had. A part that was
// measured badly shows as more than everything: then there is no figure, and a note says why.
#pragma once

#include <optional>
#include <string>

namespace weft {

// Times in microseconds, from the same rounds; none where the op has no such part or it could not be measured.
struct Overlap {
  std::optional<double> compute_us, comm_us, comm_cpu_us, sequential_us;
  double fused_us = 0;
  double aa_band = 0;

  std::optional<double> ideal_us() const;  // max(compute + comm_cpu, comm)
};

struct Hidden {
  std::optional<double> part;  // (sequential - fused) / (sequential - ideal)
  std::string note;            // why there is none; empty where there is one, or nothing to overlap
};

inline constexpr double kMostHidden = 1.05;  // above it a part was measured badly

Hidden hidden_part(const Overlap& times);

// Compute alone came out slower than compute and communication together, by more than the A/A band: it has to be
// measured again before anything is said about it.
bool compute_is_doubtful(const Overlap& times);

}  // namespace weft
