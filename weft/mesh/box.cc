#include "weft/mesh/box.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

Box::Box(std::initializer_list<Span> spans) {
  if (spans.size() > num(kMaxDims))
    bad_input("a box has {} dimensions; at most {} are supported", spans.size(), kMaxDims);
  for (const Span& span : spans) {
    lo[dims] = span.lo;
    hi[dims] = span.hi;
    ++dims;
  }
}

bool overlaps(const Box& a, const Box& b) {
  for (int d = 0; d < a.dims; ++d)
    if (std::max(a.lo[d], b.lo[d]) >= std::min(a.hi[d], b.hi[d])) return false;
  return a.dims == b.dims;
}

Box intersect(const Box& a, const Box& b) {
  Box result = a;
  for (int d = 0; d < a.dims; ++d) {
    result.lo[d] = std::max(a.lo[d], b.lo[d]);
    result.hi[d] = std::max(result.lo[d], std::min(a.hi[d], b.hi[d]));
  }
  return result;
}

bool contains(const Box& outer, const Box& inner) {
  if (inner.empty()) return true;
  for (int d = 0; d < inner.dims; ++d)
    if (inner.lo[d] < outer.lo[d] || inner.hi[d] > outer.hi[d]) return false;
  return outer.dims == inner.dims;
}

bool same_shape(const Box& a, const Box& b) {
  if (a.dims != b.dims) return false;
  for (int d = 0; d < a.dims; ++d)
    if (a.size(d) != b.size(d)) return false;
  return true;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (int d = 0; d < box.dims; ++d) text += fmt::format("{}{}:{}", d ? ", " : "", box.lo[d], box.hi[d]);
  return text + "]";
}

}  // namespace weft
