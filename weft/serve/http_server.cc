#include "weft/serve/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/serve/page.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using Handler = httplib::Server::Handler;

constexpr std::size_t kLargestBody = std::size_t{8} << 20;
constexpr milliseconds kLook{200};  // how often a client that waits is looked after
constexpr double kPartingS = 5;     // for what has been made and not yet sent
constexpr const char* kJson = "application/json";
constexpr Refusal kBusy{503, "server_error", "busy"}, kEnding{503, "server_error", "ending"};

// A name that begins as an address does is none.
bool is_loopback(const std::string& host) {
  const bool address = host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
  return address || host == "localhost" || host == "::1" || host == "[::1]";
}

std::string without_port(const std::string& host) {
  if (host.starts_with("[")) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

// Takes as long whatever differs.
bool is_same(std::string_view a, std::string_view b) {
  unsigned differs = a.size() != b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    differs |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differs == 0;
}

void refuse(httplib::Response& response, const Refusal& refusal, std::string_view sentence) {
  response.status = refusal.status;
  response.set_content(refusal_reply(refusal, sentence), kJson);
}

// Ends the connection, too: so a body that was not read is not taken for the next request, and no thread waits for one.
void refuse_and_part(httplib::Response& response, const Refusal& refusal, std::string_view sentence) {
  response.status = refusal.status;
  response.set_header("Connection", "close");
  response.set_content_provider(kJson, [text = refusal_reply(refusal, sentence)](std::size_t, httplib::DataSink& sink) {
    sink.write(text.data(), text.size());
    return false;
  });
}

}  // namespace

struct HttpServer::State {
  State(const HttpOptions& options_in, ServedModel model_in, const RequestReader& reader_in, AnswerQueue& queue_in,
        ServeCounts& counts_in)
      : options(options_in), model(std::move(model_in)), reader(reader_in), queue(queue_in), counts(counts_in) {}

  // From before its text is asked for until all of it is written.
  struct Reply {
    ReplyHead head;
    std::shared_ptr<Answer> answer;
    std::shared_ptr<void> open;  // counts
  };

  void listen();
  void add_routes();
  Handler guarded(Handler handler);
  struct Refused {
    Refusal refusal;
    std::string_view sentence;
  };
  std::optional<Refused> refused(const httplib::Request& request) const;  // before its body is read
  void complete(const httplib::Request& request, httplib::Response& response, bool chat);
  static void reply_whole(httplib::Response& response, Reply reply);
  static void reply_in_events(httplib::Response& response, Reply reply);
  ReplyHead next_head(bool chat);
  std::shared_ptr<void> open_reply() {
    ++open;
    return {nullptr, [this](void*) { --open; }};
  }

  HttpOptions options;
  ServedModel model;
  const RequestReader& reader;
  AnswerQueue& queue;
  ServeCounts& counts;
  std::atomic<int> open{0};
  std::atomic<std::int64_t> replies{0};
  httplib::Server server;
  int listening = -1;  // its socket
  std::thread thread;
};

void HttpServer::State::listen() {
  if (!is_loopback(options.host) && options.key.empty())
    bad_input("host {} lets in whoever reaches this machine; set a key that clients must send, or use 127.0.0.1",
              options.host);
  // Not what httplib sets: a second server on the same port would be let in, and get half of the clients.
  server.set_socket_options([this](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listening = socket;
  });
  server.set_tcp_nodelay(true);
  server.set_keep_alive_timeout(2);
  server.set_read_timeout(10);
  server.set_write_timeout(10);
  server.set_payload_max_length(kLargestBody);
  server.new_task_queue = [this] { return new httplib::ThreadPool(static_cast<std::size_t>(options.connections)); };
  errno = 0;
  const int port = options.port == 0                                 ? server.bind_to_any_port(options.host)
                   : server.bind_to_port(options.host, options.port) ? options.port
                                                                     : -1;
  if (port <= 0)
    bad_input("cannot listen at {}, port {}: {}; is another server there? use another host or port", options.host,
              options.port, std::strerror(errno != 0 ? errno : EADDRNOTAVAIL));
  options.port = port;
  // httplib lets 5 clients come at a time; the next would try again after a second.
  ::listen(listening, options.connections);
  thread = std::thread([this] { server.listen_after_bind(); });
  const std::int64_t start = now_ns();  // a server that does not run yet cannot be stopped
  while (!server.is_running() && seconds_since(start) < 5) std::this_thread::sleep_for(milliseconds(1));
}

std::optional<HttpServer::State::Refused> HttpServer::State::refused(const httplib::Request& request) const {
  // A page of another site whose name was made to lead here would be of our origin, and could read answers.
  if (is_loopback(options.host) && !is_loopback(without_port(request.get_header_value("Host"))))
    return Refused{{403, "invalid_request_error", "wrong_host"},
                   "this server is localhost and answers to no other name; ask for localhost"};
  const bool open_to_all = options.key.empty() || request.path == "/" || request.path == "/health";
  if (!open_to_all && !is_same(request.get_header_value("Authorization"), "Bearer " + options.key))
    return Refused{{401, "authentication_error", "invalid_api_key"},
                   "the key is missing or wrong; send it as \"Authorization: Bearer KEY\""};
  if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
  // What a form of another site can send without asking is of another type.
  if (!request.get_header_value("Content-Type").starts_with(kJson))
    return Refused{{415, "invalid_request_error", "wrong_type"}, "send JSON, as Content-Type: application/json"};
  // httplib bounds what a header says alone: not what comes in chunks, nor what unpacks.
  if (!request.has_header("Content-Length") || request.has_header("Transfer-Encoding") ||
      request.has_header("Content-Encoding"))
    return Refused{{411, "invalid_request_error", "no_length"},
                   "send the body as it is, with its Content-Length, neither in chunks nor compressed"};
  return std::nullopt;
}

Handler HttpServer::State::guarded(Handler handler) {
  return [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
    try {
      handler(request, response);
    } catch (const Error& error) {
      refuse(response, error.code() == Code::bad_input ? Refusal{} : Refusal{500, "server_error", "failed"},
             error.what());
    }
    if (response.status >= 400) ++counts.refused;
  };
}

void HttpServer::State::add_routes() {
  using httplib::Request, httplib::Response;
  server.set_pre_routing_handler([this](const Request& in, Response& out) {
    const auto why = refused(in);
    if (!why) return httplib::Server::HandlerResponse::Unhandled;
    ++counts.refused;
    refuse_and_part(out, why->refusal, why->sentence);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", guarded([](const Request&, Response& out) {
               out.set_header(
                   "Content-Security-Policy",
                   "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                   "img-src data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'");
               out.set_content(kServePage, "text/html; charset=utf-8");
             }));
  server.Get("/health",
             guarded([](const Request&, Response& out) { out.set_content("{\"status\":\"ok\"}\n", kJson); }));
  server.Get("/v1/models",
             guarded([this](const Request&, Response& out) { out.set_content(models_reply(model), kJson); }));
  server.Get("/metrics", guarded([this](const Request&, Response& out) {
               out.set_content(metrics_reply(counts, queue.size()), "text/plain; version=0.0.4");
             }));
  server.Post("/v1/completions", guarded([this](const Request& in, Response& out) { complete(in, out, false); }));
  server.Post("/v1/chat/completions", guarded([this](const Request& in, Response& out) { complete(in, out, true); }));
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"}});
  server.set_error_handler([](const Request& in, Response& out) {
    if (!out.body.empty() || out.has_header("Connection")) return;  // it has been refused
    const std::string_view code = out.status == 404 ? "not_found" : "bad_request";
    const std::string sentence = out.status == 404   ? fmt::format("there is no {} {} here", in.method, in.path)
                                 : out.status == 413 ? fmt::format("a body has at most {} bytes", kLargestBody)
                                                     : std::string("this is no request that can be read");
    refuse(out, {out.status, "invalid_request_error", code}, sentence);
  });
  server.set_exception_handler([](const Request&, Response& out, std::exception_ptr) {
    refuse(out, {500, "server_error", "failed"}, "the request could not be answered");
  });
}

ReplyHead HttpServer::State::next_head(bool chat) {
  return {fmt::format("{}-{:x}-{}", chat ? "chatcmpl" : "cmpl", model.created, ++replies), std::time(nullptr),
          model.name, chat};
}

void HttpServer::State::complete(const httplib::Request& request, httplib::Response& response, bool chat) {
  const Json body = RequestReader::parse(request.body);
  if (body.contains("model"))
    if (const std::string asked = get_string(body, "model", "request"); asked != model.name)
      return refuse(response, {404, "invalid_request_error", "model_not_found"},
                    fmt::format("the model {} is not here; use {}, or leave it out", weft::quoted(asked),
                                weft::quoted(model.name)));
  Reply reply{next_head(chat), std::make_shared<Answer>(chat ? reader.chat(body) : reader.completion(body)),
              open_reply()};
  const bool streams = reply.answer->request().streams;
  const AnswerQueue::Pushed pushed = queue.push(reply.answer);
  if (pushed == AnswerQueue::Pushed::waits)
    return streams ? reply_in_events(response, std::move(reply)) : reply_whole(response, std::move(reply));
  response.set_header("Retry-After", "1");
  if (pushed == AnswerQueue::Pushed::full)
    return refuse_and_part(response, kBusy, "too many requests wait; try again later");
  refuse_and_part(response, kEnding, "the server is ending");
}

// As a chunk, too: so httplib lets us see whether the client is still there. Its status has gone by then: a text that
// fails breaks the reply off, behind the reason.
void HttpServer::State::reply_whole(httplib::Response& response, Reply reply) {
  response.set_chunked_content_provider(
      kJson, [reply = std::move(reply), text = std::string()](std::size_t, httplib::DataSink& sink) mutable {
        const Answer::News news = reply.answer->wait(kLook);
        text += news.text;
        if (!news.ended && sink.is_writable()) return true;
        const std::string out = news.ending ? whole_reply(reply.head, text, *news.ending, news.usage)
                                            : refusal_reply({500, "server_error", "failed"}, news.failure);
        if (!news.ended || !sink.write(out.data(), out.size()) || !news.ending) {
          reply.answer->give_up();
          return false;
        }
        sink.done();
        return true;
      });
}

void HttpServer::State::reply_in_events(httplib::Response& response, Reply reply) {
  response.set_header("Cache-Control", "no-cache");
  response.set_chunked_content_provider(
      "text/event-stream", [events = begin_event(reply.head), reply](std::size_t, httplib::DataSink& sink) mutable {
        const Answer::News news = reply.answer->wait(kLook);
        if (!news.text.empty()) events += text_event(reply.head, news.text);
        if (news.ending) {
          events += end_event(reply.head, *news.ending);
          if (reply.answer->request().tells_usage) events += usage_event(reply.head, news.usage);
          events += kDoneEvent;
        } else if (news.ended) {
          events += error_event(news.failure);
        }
        if (!sink.is_writable() || (!events.empty() && !sink.write(events.data(), events.size()))) {
          reply.answer->give_up();
          return false;
        }
        events.clear();
        if (news.ended) sink.done();
        return true;
      });
}

HttpServer::HttpServer(const HttpOptions& options, ServedModel model, const RequestReader& reader, AnswerQueue& queue,
                       ServeCounts& counts)
    : state_(std::make_shared<State>(options, std::move(model), reader, queue, counts)) {
  state_->add_routes();
  state_->listen();
}

// httplib breaks off replies when it stops.
HttpServer::~HttpServer() {
  const std::int64_t start = now_ns();
  while (state_->open > 0 && seconds_since(start) < kPartingS) std::this_thread::sleep_for(milliseconds(5));
  state_->server.stop();
  state_->thread.join();
}

std::string HttpServer::address() const {
  const std::string& host = state_->options.host;
  const bool bare = host.find(':') != std::string::npos && !host.starts_with("[");
  return fmt::format("http://{}:{}", bare ? "[" + host + "]" : host, state_->options.port);
}

}  // namespace weft
