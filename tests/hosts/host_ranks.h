// What the ranks of hosts_test do on their hosts. The test program starts itself again as these ranks:
//   PROGRAM PART FOLDER ...   where FOLDER is where ranks leave what they saw, in files of their own
#pragma once

#include <string>
#include <vector>

namespace weft {
class World;
}

namespace weft::testing {

bool is_host_rank(int argc, char** argv);
int run_host_rank(int argc, char** argv);

// All ops with all routes, three runs each back to back: this rank's outputs, one after the other. The same bits
// wherever the ranks are.
std::vector<float> smoke_outputs(World& world);

double now_s();  // of a clock that all processes of the machine share

}  // namespace weft::testing
