#include "weft/kernel/quant/rounded.h"

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"

namespace weft {
namespace {

constexpr std::int64_t kRoundedPart = 32 + 4 + 4 + 2 * 2 + 2;  // of a part: bytes, scale, offset, two sums, factor
constexpr std::int64_t kLargestBlock = 256;

std::int64_t whole_steps(std::int64_t columns) {
  const std::int64_t parts = (columns + kPart - 1) / kPart;
  return (parts + kStepParts - 1) / kStepParts * kStepParts;
}

std::size_t whole_lines(std::int64_t bytes) { return num((bytes + 63) / 64 * 64); }

}  // namespace

std::int64_t RoundedForm::parts() const { return whole_steps(first + cols); }

std::int64_t most_rounded_parts(std::int64_t cols) { return whole_steps(cols + kLargestBlock - 1); }

std::size_t most_rounded_bytes(std::int64_t m, std::int64_t cols) {
  return whole_lines(m * most_rounded_parts(cols) * kRoundedPart);
}

std::size_t rounded_bytes(std::int64_t m, const RoundedForm& form) {
  return whole_lines(m * form.parts() * kRoundedPart);
}

RoundedRows rounded_in(std::byte* memory, std::int64_t m, const RoundedForm& form) {
  RoundedRows rows{.parts = form.parts()};  // a multiple of 8: arrays begin on 32 bytes
  const std::int64_t parts = m * rows.parts;
  rows.bytes = reinterpret_cast<std::int8_t*>(memory), memory += parts * 32;
  rows.scales = reinterpret_cast<float*>(memory), memory += parts * 4;
  rows.offsets = reinterpret_cast<std::int32_t*>(memory), memory += parts * 4;
  rows.sums = reinterpret_cast<std::int16_t*>(memory), memory += parts * 4;
  rows.factors = reinterpret_cast<std::int16_t*>(memory);
  return rows;
}

void round_rows(const RoundedForm& form, std::int64_t begin, std::int64_t end, const float* x, std::int64_t ldx,
                const RoundedRows& out) {
  const QuantVariant& best = quant_variant();
  for (std::int64_t i = begin; i < end; ++i)
    best.round({x + i * ldx, form.cols, form.first, form.dtype}, out.from(i * out.parts));
}

}  // namespace weft
