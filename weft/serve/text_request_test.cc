// Bodies of requests: what is read of them, what is passed over, and what is refused.
#include "weft/serve/text_request.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/model/model.h"

namespace weft {
namespace {

const std::string kServedModel = WEFT_SOURCE "/models/weft-16";

class Requests : public ::testing::Test {
 protected:
  Requests() {
    template_.write("chat_template.jinja",
                    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    chat_ = ChatTemplate::load(template_.path());
  }
  RequestReader reader() const { return {source_.config, *tokenizer_, &*chat_, defaults_}; }
  TextRequest completion(const std::string& body) const { return reader().completion(RequestReader::parse(body)); }
  TextRequest chat(const std::string& body) const { return reader().chat(RequestReader::parse(body)); }
  std::string refused(const std::string& body) const {
    return refusal([&] { completion(body); });
  }
  std::string refused_chat(const std::string& body) const {
    return refusal([&] { chat(body); });
  }

  const ModelSource source_ = open_model(kServedModel);
  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(kServedModel);
  ScratchFolder template_;
  std::optional<ChatTemplate> chat_;
  RequestDefaults defaults_{.max_tokens = 7, .capacity = 64};
};

TEST_F(Requests, ATextOrTokensWithTheirSettings) {
  const TextRequest plain = completion(R"({"prompt": "The kernel is", "model": null})");
  EXPECT_EQ(plain.prompt, tokenizer_->encode_with_special("The kernel is"));
  EXPECT_EQ(plain.max_tokens, 7);
  EXPECT_EQ(plain.sampler.temperature, 0);
  EXPECT_FALSE(plain.streams || plain.tells_usage || plain.is_chat);
  const TextRequest full = completion(
      R"({"prompt": [5, 9], "max_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 4, "seed": -1,
          "stop": ["a", "b"], "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_EQ(full.prompt, (std::vector<int>{5, 9}));
  EXPECT_EQ(full.max_tokens, 3);
  EXPECT_EQ(full.sampler.temperature, 0.5);
  EXPECT_EQ(full.sampler.top_p, 0.9);
  EXPECT_EQ(full.sampler.top_k, 4);
  EXPECT_EQ(full.sampler.seed, ~std::uint64_t{0});
  EXPECT_EQ(full.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(full.streams && full.tells_usage);
  EXPECT_EQ(completion(R"({"prompt": ["one text"], "stop": "x"})").stops, std::vector<std::string>{"x"});
}

TEST_F(Requests, AConversationByTheTemplate) {
  const TextRequest said = chat(
      R"({"messages": [{"role": "developer", "content": "Be brief."},
                       {"role": "user",
                        "content": [{"type": "text", "text": "A "}, {"type": "text", "text": "file?"}]}],
          "max_completion_tokens": 9})");
  EXPECT_EQ(said.prompt, tokenizer_->encode_with_special("system: Be brief.\nuser: A file?\nassistant:"));
  EXPECT_EQ(said.max_tokens, 9);
  EXPECT_TRUE(said.is_chat);
}

TEST_F(Requests, EachHasASeedOfItsOwnUnlessOneIsGiven) {
  EXPECT_NE(completion(R"({"prompt": "a"})").sampler.seed, completion(R"({"prompt": "a"})").sampler.seed);
  defaults_.seed_given = true, defaults_.sampler.seed = 5;
  EXPECT_EQ(completion(R"({"prompt": "a"})").sampler.seed, 5u);
}

// Libraries send all fields that they know; what says nothing is passed over.
TEST_F(Requests, FieldsThatAskForNothingArePassedOver) {
  EXPECT_NO_THROW(completion(
      R"({"prompt": "a", "n": 1, "best_of": 1, "echo": false, "logprobs": null, "presence_penalty": 0, "suffix": "",
          "frequency_penalty": 0.0, "logit_bias": {}, "user": "me", "stream_options": {"include_obfuscation": false}})"));
  EXPECT_NO_THROW(chat(
      R"({"messages": [{"role": "user", "content": "a"},
                       {"role": "assistant", "content": "b", "tool_calls": [], "refusal": null, "annotations": []},
                       {"role": "user", "content": "c"}], "tools": [], "tool_choice": "auto",
          "parallel_tool_calls": true, "response_format": {"type": "text"}, "store": true, "metadata": {"a": "b"}})"));
}

TEST_F(Requests, WhatIsNotDoneIsRefusedInASentence) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "a", "n": 2})", "\"n\" is not done by this server; leave it out"},
      {R"({"prompt": "a", "logprobs": 3})", "\"logprobs\" is not done"},
      {R"({"prompt": "a", "presence_penalty": 0.5})", "\"presence_penalty\" is not done"},
      {R"({"prompt": "a", "logprobs": 0})", "\"logprobs\" is not done"},
      {R"({"prompt": "a", "max_token": 5})", "\"max_token\" is not done"},
      {R"({"prompt": "a", "temprature": 0})", "\"temprature\" is not done"},
      {R"({"prompt": "a", "do_sample": false})", "\"do_sample\" is not done"},
      {R"({"prompt": "a", "response_format": {"type": 1}})", "\"response_format\" is not done"},
      {R"({"prompt": "a", "stream_options": {"often": 1}})", "\"often\" of \"stream_options\" is not done"},
      {R"({"prompt": "a", "max_tokens": 0})", "\"max_tokens\" is 0"},
      {R"({"prompt": "a", "max_tokens": 99999999999})", "\"max_tokens\" is 99999999999"},
      {R"({"prompt": "a", "temperature": -1})", "\"temperature\" is -1"},
      {R"({"prompt": "a", "temperature": "hot"})", "\"temperature\" is \"hot\""},
      {R"({"prompt": "a", "top_p": 0})", "top-p is 0"},
      {R"({"prompt": "a", "stop": ""})", "\"stop\" has \"\""},
      {R"({"prompt": "a", "stop": [1]})", "\"stop\" has 1"},
      {R"({"prompt": "a", "stream": 1})", "\"stream\" is 1"},
      {R"({"prompt": "a", "stream_options": []})", "\"stream_options\""},
      {R"({})", "has no \"prompt\""},
      {R"({"prompt": ""})", "no token"},
      {R"({"prompt": []})", "neither a text nor a list of tokens"},
      {R"({"prompt": ["a", "b"]})", "send each by itself"},
      {R"({"prompt": [1, "a"]})", "\"prompt\""},
      {R"({"prompt": [-1]})", "-1"},
      {R"({"prompt": [1000000]})", "1000000"},
      {R"([1])", "no object"},
      {R"({"prompt": )", "request"},
      {R"({"prompt": 3})", "neither a text nor a list of tokens"},
  };
  for (const auto& [body, part] : cases) EXPECT_NE(refused(body).find(part), std::string::npos) << refused(body);
  std::string ids = "1";
  for (int i = 0; i < 63; ++i) ids += ",1";
  EXPECT_NE(refused("{\"prompt\": [" + ids + "]}").find("there is room for 64"), std::string::npos);
}

TEST_F(Requests, MessagesThatCannotBeAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": []})", "0 messages"},
      {R"({"messages": [{"role": "tool", "content": "a"}]})", "the role \"tool\""},
      {R"({"messages": [{"role": "user"}]})", "no \"content\""},
      {R"({"messages": [{"role": "user", "content": 4}]})", "neither a text nor a list of parts"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "type \"image_url\""},
      {R"({"messages": [{"role": "user", "content": "a <|endoftext|> b"}]})", "control token"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})", "\"tools\" is not done"},
      {R"({"messages": [{"role": "user", "content": "a", "name": "me"}]})", "\"name\" of a message is not done"},
      {R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": [{}]}]})", "\"tool_calls\" of a message"},
      {R"({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "json_object"}})",
       "\"response_format\" is not done"},
  };
  for (const auto& [body, part] : cases)
    EXPECT_NE(refused_chat(body).find(part), std::string::npos) << refused_chat(body);
  chat_.reset();
  const RequestReader reader(source_.config, *tokenizer_, nullptr, defaults_);
  EXPECT_NE(refusal([&] {
              reader.chat(RequestReader::parse(R"({"messages": [{"role": "user", "content": "a"}]})"));
            }).find("use /v1/completions"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
