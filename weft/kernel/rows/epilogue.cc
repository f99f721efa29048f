#include "weft/kernel/rows/epilogue.h"

#include "weft/base/error.h"
#include "weft/kernel/variant.h"

namespace weft {

void apply(std::int64_t rows, std::int64_t cols, const Epilogue& epilogue, float* tile, std::int64_t ld) {
  variant().apply(rows, cols, epilogue, tile, ld);
}

}  // namespace weft
