// `weft serve`: a model behind OpenAI's HTTP API, for several clients at once. Rank 0 has the clients; the others are
// threads of this process, or ranks on other hosts that `weft run` or mpirun has started.
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"
#include "weft/llm/engine/engine.h"
#include "weft/serve/batch_ranks.h"
#include "weft/serve/http_server.h"

#include "cli/chat_flags.h"
#include "cli/command.h"
#include "cli/flag_values.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "cli/sampling_flags.h"

namespace weft::cli {
namespace serve {
namespace {

struct Flags {
  ChatFlags chat;
  HttpOptions http;
  std::string name;
  int at_once = 4, waiting = 64;
  bool seed_given = false, json = false;
};

// Ctrl-C and SIGTERM: what was asked for is answered, nothing more is taken. The second ends at once.
volatile std::sig_atomic_t asked_to_end = 0;

extern "C" void ask_to_end(int) {
  asked_to_end = 1;
  std::signal(SIGINT, SIG_DFL), std::signal(SIGTERM, SIG_DFL);
}

// The last part of the model's path, as clients see it.
std::string name_of_model(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(path, error);
  const std::filesystem::path last = (error ? std::filesystem::path(path) : whole).filename();
  return last.extension() == ".gguf" ? last.stem().string() : last.string();
}

ServedModel served_model(const Flags& flags, const ChatSetup& setup) {
  return {.name = flags.name.empty() ? name_of_model(flags.chat.model) : flags.name,
          .created = std::time(nullptr),
          .capacity = setup.capacity,
          .vocab = setup.source.config.vocab,
          .chat = setup.chat.has_value()};
}

RequestDefaults defaults_of(const Flags& flags, const ChatSetup& setup) {
  return {.max_tokens = setup.generate.max_tokens,
          .sampler = setup.generate.sampler,
          .seed_given = flags.seed_given,
          .capacity = setup.capacity};
}

std::string summary(const ServeCounts& counts) {
  return json_line(nlohmann::ordered_json{{"ended", counts.ended.load()},
                                          {"given_up", counts.given_up.load()},
                                          {"refused", counts.refused.load()},
                                          {"prompt_tokens", counts.prompt_tokens.load()},
                                          {"cached_tokens", counts.cached_tokens.load()},
                                          {"completion_tokens", counts.completion_tokens.load()},
                                          {"passes", counts.passes.load()},
                                          {"rows", counts.rows.load()}});
}

void lead(const Flags& flags, const ChatSetup& setup, const EngineOptions& engine, BatchRanks& ranks) {
  ServeCounts counts;
  AnswerQueue queue(num(flags.waiting), counts);
  const RequestReader reader(setup.source.config, *setup.tokenizer, setup.chat ? &*setup.chat : nullptr,
                             defaults_of(flags, setup));
  std::optional<HttpServer> server;
  try {
    server.emplace(flags.http, served_model(flags, setup), reader, queue, counts);
  } catch (const Error&) {
    ranks.end();
    throw;
  }
  say(fmt::format("{} answers at {}, {} at once, {} tokens each; Ctrl-C ends", served_model(flags, setup).name,
                  server->address(), flags.at_once, setup.capacity));
  Batch batch(
      *setup.tokenizer,
      {.sequences = engine.sequences, .capacity = engine.capacity, .rows = engine.rows, .eos = setup.generate.eos},
      counts);
  ranks.lead(batch, queue, [&, told = false]() mutable {
    if (asked_to_end != 0 && !std::exchange(told, true))
      say(fmt::format("ends when what was asked for is made (texts: {}); Ctrl-C again ends at once",
                      counts.running + static_cast<std::int64_t>(queue.size())));
    return asked_to_end != 0;
  });
  server.reset();
  if (flags.json) fmt::print("{}", summary(counts));
}

// Bounds that nobody meets who means what he says: memory and threads are allotted for all of them.
void check(const Flags& flags) {
  constexpr int kMostAtOnce = 256, kMostWaiting = 1024, kMostPort = 65535;
  if (flags.at_once > kMostAtOnce) bad_input("--at-once is {}; use 1 to {}", flags.at_once, kMostAtOnce);
  if (flags.waiting > kMostWaiting) bad_input("--waiting is {}; use 1 to {}", flags.waiting, kMostWaiting);
  if (flags.http.port > kMostPort) bad_input("--port is {}; use 0 to {}", flags.http.port, kMostPort);
}

int run(Flags flags) {
  check(flags);
  const std::shared_ptr<const ChatSetup> setup = chat_setup(&flags.chat);
  if (const char* key = std::getenv("WEFT_API_KEY")) flags.http.key = key;
  flags.http.connections = flags.at_once + flags.waiting + 8;
  const EngineOptions options{.sequences = flags.at_once, .capacity = setup->capacity};
  if (!launched()) std::signal(SIGINT, ask_to_end), std::signal(SIGTERM, ask_to_end);
  return on_ranks(flags.chat.ranks, [&](World& world) {
    const Model model(setup->source, world.rank(), world.size(), flags.chat.weights);
    Engine engine(world, model, options);
    engine.set_modes(setup->modes);
    BatchRanks ranks(world, engine);
    world.rank() == 0 ? lead(flags, *setup, engine.options(), ranks) : ranks.follow();
    return 0;
  });
}

void add_flags(CLI::App& command, Flags* flags) {
  add_chat_flags(command, &flags->chat);
  command.add_option("--host", flags->http.host, "the address to listen at")->type_name("HOST")->capture_default_str();
  add_number(command, "--port", &flags->http.port, "the port; 0: any that is free", 0)->capture_default_str();
  add_number(command, "--at-once", &flags->at_once, "texts that are made together, each with room for --context tokens",
             1)
      ->capture_default_str();
  add_number(command, "--waiting", &flags->waiting,
             "requests that may wait for one of them; more are told to come back", 1)
      ->capture_default_str();
  command.add_option("--name", flags->name, "what clients call the model (its folder's name)")->type_name("NAME");
  command.add_flag("--json", flags->json, "what was done, as one JSON object, at the end");
}

}  // namespace
}  // namespace serve

void add_serve(CLI::App& app, Run* chosen) {
  auto* command = app.add_subcommand("serve", "a model behind OpenAI's HTTP API, and a page to talk to it");
  auto flags = std::make_shared<serve::Flags>();
  serve::add_flags(*command, flags.get());
  command->footer(
      "Clients send the key of the environment's WEFT_API_KEY, where there is one. There is no TLS: on a network put "
      "a\n"
      "proxy in front. docs/serve.md tells what is done of the API.\n"
      "Example:\n  weft serve --model models/weft-16 --ranks 2\n"
      "  curl localhost:8080/v1/completions -H 'Content-Type: application/json' -d '{\"prompt\": \"The kernel is\"}'");
  command->callback([=] {
    flags->chat.sampler_given = sampling_given(*command);
    flags->seed_given = command->count("--seed") > 0;
    *chosen = [flags] { return serve::run(*flags); };
  });
}

}  // namespace weft::cli
