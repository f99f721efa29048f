// `weft generate` as its users see it: text and figures, the same from threads and processes; what it refuses.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/cores.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/model.h"

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

const std::string kModel = golden_folders()[0];
constexpr const char* kPrompt = "The kernel is";

Ended generate(std::vector<std::string> words) {
  words.insert(words.begin(), "generate");
  return weft(words);
}

Json object(const Ended& ended) {
  EXPECT_EQ(ended.code, 0) << ended.err;
  return Json::parse(ended.out, nullptr, false);
}

Json generated(std::vector<std::string> words) {
  for (const char* word : {"--model", kModel.c_str(), "--prompt", kPrompt, "--max-tokens", "24", "--json"})
    words.emplace_back(word);
  return object(generate(words));
}

TEST(GenerateCommand, SaysWhatItMadeAndWhatItCost) {
  const Json one = generated({});
  for (const char* key : {"text", "tokens", "ttft_ms", "ms_per_token", "sync_points", "syncs_dropped", "bytes_sent",
                          "block_bytes", "head_bytes", "ranks", "load_ms", "compile_ms", "prompt_tokens"})
    EXPECT_TRUE(one.contains(key)) << key;
  EXPECT_EQ(one["tokens"].size(), 24u);
  EXPECT_EQ(one["bytes_sent"], 0);
  EXPECT_EQ(one["sync_points"], 24 * 32);
  EXPECT_GT(one["text"].get<std::string>().size(), 20u);
}

TEST(GenerateCommand, ThreadsAndProcessesMakeTheSameText) {
  const Json one = generated({});
  for (const char* ranks : {"2", "3", "4"})
    for (const char* transport : {"shm", "threads"}) {
      const Json many = generated({"--ranks", ranks, "--transport", transport});
      EXPECT_EQ(many["text"], one["text"]) << ranks << ' ' << transport;
      EXPECT_EQ(many["transport"], transport);
      EXPECT_GT(many["block_bytes"].get<std::int64_t>(), 0);
    }
}

TEST(GenerateCommand, DroppingEveryBlockHalvesTheirBytes) {
  const Json plain = generated({"--ranks", "4", "--ignore-eos"});
  const Json half = generated({"--ranks", "4", "--ignore-eos", "--drop", "all"});
  EXPECT_EQ(half["block_bytes"].get<std::int64_t>() * 2, plain["block_bytes"].get<std::int64_t>());
  EXPECT_EQ(half["syncs_dropped"], 24 * 16);
  const Json some = generated({"--ranks", "2", "--drop", "3,5-6", "--wire", "int8"});
  EXPECT_EQ(some["blocks"][3], "drop+int8");
  EXPECT_EQ(some["blocks"][4], "int8");
}

std::string joined(const std::vector<int>& ids) {
  std::string out;
  for (const int id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
  return out;
}

TEST(GenerateCommand, UnderWeftRun) {
  const std::string words = fmt::format("generate --model {} --prompt-ids {} --max-tokens 24 --json", kModel,
                                        joined(golden_prompts(kModel)[0].ids));
  const Json direct = object(weft(words));
  const Json run = object(weft(fmt::format("run -n 3 -- {} {}", WEFT_BINARY, words)));
  EXPECT_EQ(run["tokens"], direct["tokens"]);
  EXPECT_EQ(run["ranks"], 3);
}

TEST(GenerateCommand, WritesTheLogitsOfEveryPromptPosition) {
  ScratchFolder folder;
  const std::string path = folder.file("logits.npy");
  for (const std::string& model : golden_folders()) {
    const GoldenPrompt prompt = golden_prompts(model)[2];
    object(generate({"--model", model, "--prompt-ids", joined(prompt.ids), "--max-tokens", "1", "--ranks", "3",
                     "--rows", "16", "--logits", path, "--json"}));
    const NpyArray logits = read_npy(path);
    EXPECT_EQ(logits.shape[0], std::ssize(prompt.ids));
    EXPECT_LT(golden_error(prompt, logits.values), 1e-4) << model;
  }
}

TEST(GenerateCommand, StopsAndBatches) {
  ScratchFolder folder;
  const std::string text = generated({})["text"];
  const std::string stop = text.substr(11, 6);
  const Json cut = generated({"--stop", stop});
  EXPECT_EQ(cut["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(cut["ending"], "stop");
  const std::string file = folder.write("p.jsonl", "{\"prompt\": \"The kernel is\"}\n{\"prompt\": \"A file\"}\n");
  const Json batch =
      object(generate({"--model", kModel, "--prompts", file, "--max-tokens", "24", "--ranks", "2", "--json"}));
  ASSERT_EQ(batch["texts"].size(), 2u);
  EXPECT_EQ(batch["texts"][0]["text"], text);
  const Ended plain = generate({"--model", kModel, "--prompt", kPrompt, "--max-tokens", "24"});
  EXPECT_TRUE(plain.out.starts_with(kPrompt + text + "\n")) << plain.out;
  EXPECT_NE(plain.out.find("time to first token"), std::string::npos);
  EXPECT_NE(plain.out.find("synchronisations     768 made, 0 dropped"), std::string::npos) << plain.out;
}

// Prompts that can be read once reach every rank, from standard input and from a shell's <(command).
TEST(GenerateCommand, PromptsFlowIn) {
  const std::string text = generated({})["text"];
  for (const char* ranks : {"1", "2"}) {
    const std::string words =
        fmt::format("{} generate --model {} --max-tokens 24 --json --ranks {}", WEFT_BINARY, kModel, ranks);
    const auto by_shell = [&](const std::string& line) {
      return object(wait_for(start_program({"bash", "-c", line})));
    };
    EXPECT_EQ(by_shell(fmt::format("printf '{}' | {} --prompt-file -", kPrompt, words))["text"], text) << ranks;
    EXPECT_EQ(by_shell(fmt::format("printf '{}' | {} --prompt -", kPrompt, words))["text"], text) << ranks;
    EXPECT_EQ(by_shell(fmt::format("{} --prompt-file <(printf '{}')", words, kPrompt))["text"], text) << ranks;
    const std::string lines = R"({"prompt": "The kernel is"}\n{"prompt": "A file"}\n)";
    const Json batch = by_shell(fmt::format("printf '{}' | {} --prompts -", lines, words));
    ASSERT_EQ(batch["texts"].size(), 2u);
    EXPECT_EQ(batch["texts"][0]["text"], text);
  }
  const Ended started = wait_for(start_program(
      {"bash", "-c",
       fmt::format("printf x | {0} run -n 2 -- {0} generate --model {1} --prompt-file -", WEFT_BINARY, kModel)}));
  EXPECT_EQ(started.code, 2) << started.err;
  EXPECT_NE(started.err.find("\"-\" can be read once"), std::string::npos) << started.err;
}

// The texts of a batch come out in the order of their prompts, each as it grows.
TEST(GenerateCommand, BatchesAreToldInOrder) {
  const Ended both = generate({"--model", kModel, "--prompt", kPrompt, "--prompt", "A file", "--max-tokens", "24"});
  EXPECT_EQ(both.code, 0) << both.err;
  const std::string text = generated({})["text"];
  EXPECT_TRUE(both.out.starts_with("[0] " + (kPrompt + text) + "\n[1] A file")) << both.out;
}

TEST(GenerateCommand, TakesTheCoresThereAre) {
  EXPECT_EQ(generated({"--ranks", "1"})["threads"], std::max(1, static_cast<int>(usable_cores())));
  EXPECT_EQ(generated({"--ranks", "1", "--threads", "1"})["threads"], 1);
}

TEST(GenerateCommand, AnSpdFileIsForOneModelAndOneDegree) {
  ScratchFolder folder;
  std::string blocks;
  for (int b = 0; b < 16; ++b) blocks += b == 0 ? "\"sync\"" : ", \"drop\"";
  const auto spd = [&](const std::string& hash, int tp) {
    return folder.write("m.spd",
                        fmt::format(R"({{"format": 1, "model": "{}", "tp": {}, "blocks": [{}]}})", hash, tp, blocks));
  };
  const std::string hash = model_hash(kModel);
  const Json made = generated({"--ranks", "2", "--spd", spd(hash, 2), "--ignore-eos"});
  EXPECT_EQ(made["syncs_dropped"], 24 * 15);
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"--model", kModel, "--prompt", kPrompt, "--max-tokens", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = generate(words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    return ended.err;
  };
  EXPECT_NE(refused({"--ranks", "4", "--spd", spd(hash, 2)}).find("4"), std::string::npos);
  const std::string wrong = refused({"--ranks", "2", "--spd", spd(std::string(64, 'a'), 2)});
  EXPECT_NE(wrong.find("model"), std::string::npos) << wrong;
}

TEST(GenerateCommand, RefusesInOneSentence) {
  const auto says = [](const std::vector<std::string>& words, const std::string& part) {
    const Ended ended = generate(words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  };
  says({"--prompt", "a"}, "--model");
  says({"--model", "/nowhere", "--prompt", "a"}, "/nowhere/config.json");
  says({"--model", "Org/some-model", "--prompt", "a"}, "hf download Org/some-model --local-dir some-model");
  says({"--model", kModel}, "there is no prompt");
  says({"--model", kModel, "--prompt-ids", "1,x"}, "--prompt-ids has \"x\"");
  says({"--model", kModel, "--prompt-ids", "8192"}, "8192");
  says({"--model", kModel, "--prompt", ""}, "--prompt is \"\"");
  says({"--model", kModel, "--prompt", "a", "--drop", "16"}, "--drop");
  says({"--model", kModel, "--prompt", "a", "--drop", "7-5"}, "turn it round");
  says({"--model", kModel, "--prompt", "a", "--wire", "fp4"}, "fp4");
  says({"--model", kModel, "--prompt", "a", "--sync", "magic"}, "magic");
  says({"--model", kModel, "--prompt", "a", "--top-p", "1.5"}, "top-p is 1.5");
  says({"--model", kModel, "--prompt", "a", "--ranks", "0"}, "--ranks is 0");
  says({"--model", kModel, "--prompt", "a", "--spd", "/nowhere.spd"}, "/nowhere.spd");
  says({"--random", kModel + "/config.json", "--prompt", "a"}, "--prompt-ids");
}

TEST(GenerateCommand, MakesUpAModelOfAConfig) {
  const Json made = object(generate({"--random", golden_folders()[1] + "/config.json", "--prompt-ids", "1,2,3",
                                     "--max-tokens", "8", "--ranks", "2", "--ignore-eos", "--json"}));
  EXPECT_EQ(made["tokens"].size(), 8u);
}

}  // namespace
}  // namespace weft::testing
