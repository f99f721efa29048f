#include "weft/llm/engine/conversation.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

class ConversationTest : public ::testing::Test {
 protected:
  Conversation with(const std::string& chat, const std::string& system) {
    folder_.write("chat_template.jinja", chat);
    return Conversation(*ChatTemplate::load(folder_.path()), *tokenizer_, system);
  }

  ScratchFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(WEFT_SOURCE "/models/weft-16");
};

constexpr const char* kChat =
    "{% for m in messages %}<|endoftext|>{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";

TEST_F(ConversationTest, TurnsBecomeTokensOfTheWholeConversation) {
  Conversation talk = with(kChat, "Be brief.");
  EXPECT_EQ(tokenizer_->decode(talk.ask("Hello")),
            "<|endoftext|>system: Be brief.\n<|endoftext|>user: Hello\nassistant:");
  talk.answer("Hi");
  const std::vector<int> tokens = talk.ask("And now?");
  EXPECT_EQ(tokens[0], *tokenizer_->find_token("<|endoftext|>")) << "the template's own tokens are tokens";
  EXPECT_EQ(
      tokenizer_->decode(tokens),
      "<|endoftext|>system: Be brief.\n<|endoftext|>user: Hello\n<|endoftext|>assistant: Hi\n<|endoftext|>user: And "
      "now?\nassistant:");
  talk.begin_anew();
  ASSERT_EQ(talk.messages().size(), 1u);
  EXPECT_EQ(talk.messages()[0].role, "system");
}

TEST_F(ConversationTest, AControlTokenInAUsersTextIsRefused) {
  Conversation talk = with(kChat, "");
  EXPECT_EQ(refusal([&] { talk.ask("a <|endoftext|> b"); }),
            "the text has \"<|endoftext|>\", which is a control token of this model; write it in another way");
  EXPECT_TRUE(talk.messages().empty());
}

TEST_F(ConversationTest, WhatTheTemplateRefusesIsForgotten) {
  Conversation talk = with("{{ raise_exception('not that') if messages[-1].content == 'x' }}ok", "");
  EXPECT_NE(refusal([&] { talk.ask("x"); }).find("not that"), std::string::npos);
  EXPECT_TRUE(talk.messages().empty());
  EXPECT_EQ(tokenizer_->decode(talk.ask("y")), "ok");
}

}  // namespace
}  // namespace weft
