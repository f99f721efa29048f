// HttpServer of a build without HTTP.
#include "weft/base/error.h"
#include "weft/serve/http_server.h"

namespace weft {

HttpServer::HttpServer(const HttpOptions&, ServedModel, const RequestReader&, AnswerQueue&, ServeCounts&) {
  bad_input("this build has no HTTP; install libcpp-httplib-dev and pkg-config, and build again");
}
HttpServer::~HttpServer() = default;
std::string HttpServer::address() const { return {}; }

}  // namespace weft
