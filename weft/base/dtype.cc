#include "weft/base/dtype.h"

#include "weft/base/names.h"

namespace weft {
namespace {

constexpr Names<Dtype, 7> kDtypes{{{Dtype::f32, "f32"},
                                   {Dtype::bf16, "bf16"},
                                   {Dtype::i32, "i32"},
                                   {Dtype::i64, "i64"},
                                   {Dtype::u8, "u8"},
                                   {Dtype::int8, "int8"},
                                   {Dtype::f16, "f16"}}};

// Kept apart: weights are of these, and nothing that ranks send.
constexpr Names<Dtype, 4> kBlocked{
    {{Dtype::q8_0, "q8_0"}, {Dtype::q4_0, "q4_0"}, {Dtype::q4_k, "q4_k"}, {Dtype::q6_k, "q6_k"}}};

}  // namespace

std::string_view to_string(Dtype dtype) {
  return size_of(dtype) == 0 ? name_of(kBlocked, dtype) : name_of(kDtypes, dtype);
}
Dtype parse_dtype(std::string_view name) { return parse_name(kDtypes, "dtype", name); }

Dtype parse_weight_dtype(std::string_view name) {
  for (const auto& [dtype, own] : kBlocked)
    if (own == name) return dtype;
  return parse_dtype(name);
}

}  // namespace weft
