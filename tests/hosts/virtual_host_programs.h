// What the test of virtual clusters runs on their hosts: it starts itself again with one of these names. Each prints
// one line of JSON from each rank that has something to say, and returns an exit code.
//   stream ADDRESS BYTES   rank 1 sends so many bytes to rank 0, which listens there: {"bytes_per_s": ...}
//   burn SECONDS           keeps a core busy: {"cores": CPU time used, a second}
//   reach ADDRESS          tries to connect to a port where nobody listens: {"reached": whether the host is there}
#pragma once

namespace weft::testing {

bool is_host_program(int argc, char** argv);
int run_host_program(char** argv);

}  // namespace weft::testing
