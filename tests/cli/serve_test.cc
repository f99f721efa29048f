// `weft serve` as its clients see it: a process, spoken to by HTTP on the loopback interface.
#include <httplib.h>
#include <signal.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const std::string kModel = WEFT_SOURCE "/models/weft-16";
const char* kJsonType = "application/json";

std::string text_of(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// What `look` finds, asked for again and again for a while.
template <typename Look>
auto awaited(Look look) -> decltype(look()) {
  for (int i = 0; i < 3000; ++i) {
    if (auto found = look()) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

class Served {
 public:
  // `before`: words before those of the command, as a launcher.
  explicit Served(const Words& more = {}, const std::string& model = kModel, const Words& before = {}) {
    Words words = before;
    if (!before.empty()) words.push_back(WEFT_BINARY);
    for (const std::string& word : Words{"serve", "--model", model, "--threads", "1", "--port", "0", "--json"})
      words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    running_ = start_weft(words);
    port_ = awaited([&] { return port(text_of(running_.err)); });
    EXPECT_GT(port_, 0) << text_of(running_.err);
  }
  ~Served() {
    if (running_.pid > 0) end(SIGKILL);
  }

  pid_t pid() const { return running_.pid; }
  int port() const { return port_; }
  bool told(const std::string& part) const { return text_of(running_.err).find(part) != std::string::npos; }
  httplib::Client client() const {
    httplib::Client out("127.0.0.1", port_);
    out.set_read_timeout(60);
    return out;
  }
  Json post(const std::string& path, const Json& body, int status = 200) const {
    const auto reply = client().Post(path, body.dump(), kJsonType);
    EXPECT_TRUE(reply) << path << ": " << httplib::to_string(reply.error());
    if (!reply) return {};
    EXPECT_EQ(reply->status, status) << reply->body;
    return Json::parse(reply->body);
  }
  std::string completion(const std::string& prompt, int max_tokens) const {
    const Json reply = post("/v1/completions", {{"prompt", prompt}, {"max_tokens", max_tokens}});
    return reply.contains("choices") ? reply["choices"][0]["text"].get<std::string>() : "no text";
  }
  std::int64_t metric(const std::string& name) const {
    const auto reply = client().Get("/metrics");
    const std::string head = "\nweft_" + name + " ";
    const std::size_t at = reply ? reply->body.find(head) : std::string::npos;
    return at == std::string::npos ? -1 : std::atoll(reply->body.c_str() + at + head.size());
  }
  void signal(int number) const { ::kill(running_.pid, number); }
  Ended end(int number) {
    signal(number);
    return wait();
  }
  Ended wait() {
    const Ended out = wait_for(running_);
    running_.pid = -1;
    return out;
  }

 private:
  static int port(const std::string& err) {
    const std::size_t at = err.find("http://127.0.0.1:");
    return at == std::string::npos || err.find('\n', at) == std::string::npos ? 0 : std::atoi(err.c_str() + at + 17);
  }

  Running running_;
  int port_ = 0;
};

// What a stream's events say, joined; checks their frame.
std::string joined(const std::string& events, Json* usage = nullptr) {
  std::string out;
  std::size_t begin = 0, end = 0;
  bool done = false;
  for (; (end = events.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const std::string event = events.substr(begin, end - begin);
    EXPECT_EQ(event.substr(0, 6), "data: ") << event;
    EXPECT_FALSE(done) << event;
    if (event == "data: [DONE]") {
      done = true;
      continue;
    }
    const Json json = Json::parse(event.substr(6));
    if (json.contains("usage") && usage != nullptr) *usage = json["usage"];
    for (const Json& choice : json["choices"])
      out += choice.contains("text") ? choice["text"].get<std::string>() : choice["delta"].value("content", "");
  }
  EXPECT_TRUE(done) << events;
  EXPECT_EQ(begin, events.size());
  return out;
}

TEST(ServeCommand, MakesTheTextsThatGenerateMakes) {
  const Ended made =
      weft(Words{"generate", "--model", kModel, "--prompt", "The kernel is", "--max-tokens", "20", "--json"});
  const std::string want = Json::parse(made.out)["text"];
  for (const char* ranks : {"1", "2", "3"}) {
    Served server({"--ranks", ranks});
    EXPECT_EQ(server.completion("The kernel is", 20), want) << ranks;
    const auto events = server.client().Post(
        "/v1/completions",
        R"({"prompt": "The kernel is", "max_tokens": 20, "stream": true, "stream_options": {"include_usage": true}})",
        kJsonType);
    ASSERT_TRUE(events);
    EXPECT_EQ(events->get_header_value("Content-Type"), "text/event-stream");
    Json usage;
    EXPECT_EQ(joined(events->body, &usage), want);
    EXPECT_EQ(usage["completion_tokens"], 20);
    EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 2) << "all but the last token was there";
    const Ended ended = server.end(SIGINT);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(Json::parse(ended.out)["ended"], 2) << ended.out;
  }
}

TEST(ServeCommand, AnswersConversations) {
  ScratchFolder folder;
  for (const auto& file : std::filesystem::directory_iterator(kModel))
    if (file.is_regular_file())
      std::filesystem::create_symlink(file.path(), folder.file(file.path().filename().string()));
  folder.write("chat_template.jinja",
               "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}The{% endif %}");
  Served server({"--name", "tiny"}, folder.path());
  EXPECT_EQ(Json::parse(server.client().Get("/v1/models")->body)["data"][0]["id"], "tiny");
  Json messages = Json::array({{{"role", "user"}, {"content", "What is a kernel?"}}});
  const Json first =
      server.post("/v1/chat/completions", {{"model", "tiny"}, {"messages", messages}, {"max_tokens", 8}});
  EXPECT_EQ(first["object"], "chat.completion");
  EXPECT_EQ(first["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(first["choices"][0]["finish_reason"], "length");
  messages.push_back(first["choices"][0]["message"]);
  messages.push_back({{"role", "user"}, {"content", "And a file?"}});
  const Json second = server.post("/v1/chat/completions", {{"messages", messages}, {"max_tokens", 8}});
  EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"], 4) << "the first question was there";
  const auto events = server.client().Post(
      "/v1/chat/completions", Json{{"messages", messages}, {"max_tokens", 8}, {"stream", true}}.dump(), kJsonType);
  EXPECT_EQ(joined(events->body), second["choices"][0]["message"]["content"]);
}

TEST(ServeCommand, ServesManyAtOnceAndEndsWhenTheyAreAnswered) {
  Served server({"--at-once", "3", "--ranks", "2"});
  const std::string prompts[] = {"The kernel is", "A file has", "To mount a", "Memory"};
  std::string alone[4];
  for (int i = 0; i < 4; ++i) alone[i] = server.completion(prompts[i], 40);
  std::string together[12];
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i) clients.emplace_back([&, i] { together[i] = server.completion(prompts[i % 4], 40); });
  EXPECT_TRUE(awaited([&] {  // all have come; in an order that counts none twice
    const std::int64_t ended = server.metric("ended_total"), running = server.metric("running");
    return ended + running + server.metric("waiting") == 16;
  }));
  server.signal(SIGTERM);
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < 12; ++i) EXPECT_EQ(together[i], alone[i % 4]) << i;
  const Ended ended = server.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("Ctrl-C again ends at once"), std::string::npos);
  EXPECT_EQ(Json::parse(ended.out)["ended"], 16) << "what was asked for was answered";
}

TEST(ServeCommand, ForgetsAClientThatGoesAway) {
  Served server;
  for (const bool stream : {true, false}) {
    const std::string body = Json{{"prompt", "The kernel is"}, {"max_tokens", 1000}, {"stream", stream}}.dump();
    {
      httplib::Client client = server.client();
      client.set_read_timeout(0, 300'000);  // gone after so long
      std::size_t got = 0;
      httplib::Request request;
      request.method = "POST", request.path = "/v1/completions", request.body = body;
      request.set_header("Content-Type", kJsonType);
      request.content_receiver = [&](const char*, std::size_t size, std::uint64_t, std::uint64_t) {
        return (got += size) < 2000;
      };
      EXPECT_FALSE(client.send(request));
    }
    EXPECT_TRUE(awaited([&] { return server.metric("given_up_total") == (stream ? 1 : 2); })) << stream;
  }
  EXPECT_EQ(server.metric("running"), 0);
  EXPECT_FALSE(server.completion("A file has", 5).empty());
}

TEST(ServeCommand, RefusesWithAStatusAndASentence) {
  Served server({"--waiting", "1", "--at-once", "1"});
  const auto says = [&](const Json& body, int status, const std::string& part) {
    const Json reply = server.post("/v1/completions", body, status);
    EXPECT_NE(reply["error"]["message"].get<std::string>().find(part), std::string::npos) << reply;
  };
  says({{"prompt", "a"}, {"model", "gpt-4"}}, 404, "the model \"gpt-4\" is not here; use \"weft-16\"");
  says({{"prompt", "a"}, {"n", 3}}, 400, "\"n\" is not done by this server");
  says({{"prompt", std::vector<int>(2000, 5)}}, 400, "there is room for 1024");
  const auto status = [&](const httplib::Result& reply) { return reply ? reply->status : -1; };
  EXPECT_EQ(status(server.client().Post("/v1/completions", "{\"prompt\": \"a\"}", "text/plain")), 415);
  EXPECT_EQ(status(server.client().Post("/v1/completions", "{\"prompt\": ", kJsonType)), 400);
  EXPECT_EQ(status(server.client().Post("/v1/completions", std::string(9 << 20, ' '), kJsonType)), 413);
  // Bodies that no header bounds: refused before any of them is read.
  std::signal(SIGPIPE, SIG_IGN);
  const auto endless = [](std::size_t, httplib::DataSink& sink) {
    static const std::string part(1 << 16, ' ');
    return sink.write(part.data(), part.size());
  };
  EXPECT_NE(status(server.client().Post("/v1/completions", endless, kJsonType)), 200);
  for (const char* name : {"Transfer-Encoding", "Content-Encoding"}) {
    const auto reply = server.client().Post("/v1/completions", {{name, "gzip"}}, R"({"prompt": "a"})", kJsonType);
    EXPECT_EQ(status(reply), 411) << name;
    EXPECT_NE(reply->body.find("neither in chunks nor compressed"), std::string::npos) << reply->body;
  }
  EXPECT_EQ(status(server.client().Get("/v1/nothing")), 404);
  for (const char* name : {"evil.example", "127.0.0.1.evil.example"})  // names that were made to lead here
    EXPECT_EQ(status(server.client().Get("/health", {{"Host", name}})), 403) << name;
  EXPECT_EQ(status(server.client().Get("/")), 200);
  EXPECT_EQ(server.metric("running"), 0);
  // One is made, one waits, the third is told to come back.
  std::thread first([&] { server.completion("The kernel is", 900); });
  awaited([&] { return server.metric("running") == 1; });
  std::thread second([&] { server.completion("A file has", 5); });
  awaited([&] { return server.metric("waiting") == 1; });
  says({{"prompt", "a"}}, 503, "too many requests wait");
  const auto busy = server.client().Post("/v1/completions", R"({"prompt": "a"})", kJsonType);
  EXPECT_EQ(busy->get_header_value("Retry-After"), "1");
  EXPECT_EQ(busy->get_header_value("Connection"), "close") << "no thread waits for the next request";
  first.join(), second.join();
}

TEST(ServeCommand, AsksForItsKey) {
  ::setenv("WEFT_API_KEY", "open sesame", 1);
  Served server;
  ::unsetenv("WEFT_API_KEY");
  const std::string body = R"({"prompt": "a", "max_tokens": 1})";
  EXPECT_EQ(server.client().Post("/v1/completions", body, kJsonType)->status, 401);
  EXPECT_EQ(server.client().Post("/v1/completions", {{"Authorization", "Bearer open"}}, body, kJsonType)->status, 401);
  EXPECT_EQ(server.client().Get("/metrics")->status, 401);
  EXPECT_EQ(server.client().Post("/v1/completions", {{"Authorization", "Bearer open sesame"}}, body, kJsonType)->status,
            200);
  EXPECT_EQ(server.client().Get("/health")->status, 200);
  EXPECT_EQ(server.client().Get("/")->status, 200) << "the page asks for it";
}

TEST(ServeCommand, RefusesToStartInOneSentence) {
  const auto says = [](const Words& more, const std::string& part) {
    Words words{"serve", "--model", kModel};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = weft(words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
  };
  Served server;
  for (const char* ranks : {"1", "2"})
    says({"--port", std::to_string(server.port()), "--ranks", ranks}, "is another server there?");
  says({"--host", "0.0.0.0"}, "lets in whoever reaches this machine");
  says({"--host", "no.such.host.invalid"}, "lets in whoever");
  says({"--port", "70000"}, "--port is 70000");
  says({"--at-once", "1000"}, "--at-once is 1000");
  says({"--max-tokens", "0"}, "--max-tokens is 0");
}

TEST(ServeCommand, TheSecondSignalEndsAtOnce) {
  Served server;
  std::thread client([&] {
    const auto reply =
        server.client().Post("/v1/completions", R"({"prompt": "The kernel is", "max_tokens": 1000})", kJsonType);
    EXPECT_FALSE(reply && reply->status == 200 && reply->body.find("finish_reason") != std::string::npos);
  });
  awaited([&] { return server.metric("running") == 1; });
  server.signal(SIGINT);
  EXPECT_TRUE(awaited([&] { return server.told("(texts: 1); Ctrl-C again ends at once"); }));
  EXPECT_EQ(server.client().Post("/v1/completions", R"({"prompt": "a"})", kJsonType)->status, 503)
      << "no more is taken";
  EXPECT_EQ(server.end(SIGTERM).code, 128 + SIGTERM);
  client.join();
}

// Ranks that a launcher has started, as on several hosts: where one dies, clients are told and nothing is left.
TEST(ServeCommand, TellsClientsThatARankHasDied) {
  Served server({}, kModel, {"run", "-n", "2", "--"});
  EXPECT_FALSE(server.completion("The kernel is", 10).empty());
  const std::vector<pid_t> ranks = children_of(server.pid());
  ASSERT_EQ(ranks.size(), 2u);
  std::string told;
  std::thread client([&] {
    const auto reply = server.client().Post(
        "/v1/completions", R"({"prompt": "The kernel is", "max_tokens": 1000, "stream": true})", kJsonType);
    if (reply) told = reply->body;
  });
  std::thread whole([&] {  // a status has gone before: the reply is broken off
    EXPECT_FALSE(server.client().Post("/v1/completions", R"({"prompt": "A file", "max_tokens": 1000})", kJsonType));
  });
  awaited([&] { return server.metric("running") == 2; });
  ::kill(ranks[1], SIGKILL);
  client.join(), whole.join();
  const Ended ended = server.wait();
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_NE(ended.err.find("rank 1"), std::string::npos) << ended.err;
  const std::size_t error = told.find("\"error\"");
  ASSERT_NE(error, std::string::npos) << told;
  EXPECT_NE(told.find("rank 1", error), std::string::npos) << told.substr(error);
  for (const pid_t rank : ranks) EXPECT_FALSE(alive(rank));
}

}  // namespace
}  // namespace weft::testing
