// The HTTP side of a server: OpenAI's completions, chat completions and models, a page for people, and what a monitor
// asks for. It reads requests, puts them into the queue, and writes what comes of them; it makes no text itself.
//   GET  /             the page                 POST /v1/completions
//   GET  /health       {"status": "ok"}         POST /v1/chat/completions
//   GET  /metrics      counts, for Prometheus   GET  /v1/models
// A client that goes away gives its text up.
#pragma once

#include <memory>
#include <string>

#include "weft/serve/answer.h"
#include "weft/serve/reply.h"
#include "weft/serve/serve_counts.h"
#include "weft/serve/text_request.h"

namespace weft {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;       // 0: any that is free
  std::string key;       // that clients send as "Authorization: Bearer KEY"; empty: none is asked for
  int connections = 64;  // at once
};

class HttpServer {
 public:
  // Listens, and begins to answer. The others outlive it. Throws bad_input where it cannot listen, where strangers
  // could reach it and no key is asked for, and in a build without HTTP.
  HttpServer(const HttpOptions& options, ServedModel model, const RequestReader& reader, AnswerQueue& queue,
             ServeCounts& counts);
  ~HttpServer();  // what has been made is sent first, a few seconds at most

  std::string address() const;  // http://127.0.0.1:8080

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weft
