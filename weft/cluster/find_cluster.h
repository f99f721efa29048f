// Which cluster describes the machine at hand, for those who were not told: calibrating once serves ever after.
#pragma once

#include <string>

#include "weft/cluster/cluster.h"

namespace weft {

// Where `weft info --calibrate --save` keeps what it measured: $XDG_CACHE_HOME/weft/cluster.json, or
// ~/.cache/weft/cluster.json; empty where neither XDG_CACHE_HOME nor HOME is set.
std::string saved_cluster_path();

// The file that WEFT_CLUSTER names, else the saved one, else default_cluster(). WEFT_CLUSTER=default asks for the last.
// Throws bad_input where WEFT_CLUSTER names a file that is no cluster; a saved file that cannot be read, such as one of
// another version of Weft, counts as none.
Cluster find_cluster();

}  // namespace weft
