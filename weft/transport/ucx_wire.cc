#include "weft/transport/ucx_wire.h"

#include "weft/base/error.h"
#ifdef WEFT_UCX
#include "weft/transport/ucx_messenger.h"
#endif

namespace weft {

#ifdef WEFT_UCX
bool UcxWire::available() { return true; }

std::unique_ptr<UcxWire> UcxWire::make(WireHost host) { return std::make_unique<UcxMessenger>(std::move(host)); }
#else
bool UcxWire::available() { return false; }

std::unique_ptr<UcxWire> UcxWire::make(WireHost) {
  bad_input("this Weft was built without UCX, which ranks on several hosts need; install libucx-dev and build again");
}
#endif

}  // namespace weft
