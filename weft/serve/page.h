// The page that people see: page.html, which the build puts into the library.
#pragma once

#include <string>

namespace weft {

extern const std::string kServePage;

}  // namespace weft
