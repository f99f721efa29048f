// Answers of a conversation: the same as those of a model that reads all of it anew, with less to read.
#include "weft/llm/chat/chat_ranks.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/chat/chat_session.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kChatModel = WEFT_SOURCE "/models/weft-16";

// Turns of a conversation; each continues the one before and its answer, but the last, which begins anew.
std::vector<int> next_prompt(const Tokenizer& tokenizer, const std::vector<int>& before, const GeneratedText& answer,
                             const char* text) {
  std::vector<int> out = before;
  out.insert(out.end(), answer.tokens.begin(), answer.tokens.end());
  const std::vector<int> more = tokenizer.encode(text);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

GeneratedText fresh(World& world, const Model& model, const Tokenizer& tokenizer, const std::vector<int>& prompt,
                    GenerateOptions options) {
  Engine engine(world, model, {.capacity = 128});
  return generate(engine, &tokenizer, {&prompt, 1}, options).texts[0];
}

TEST(ChatRanks, KeepWhatTheyHaveAndAnswerTheSame) {
  const auto tokenizer = Tokenizer::load(kChatModel);
  for (const int ranks : {1, 2, 3})
    World::local(ranks, [&](World& world) {
      const Model model = Model::load(kChatModel, world.rank(), world.size());
      Engine engine(world, model, {.capacity = 128});
      ChatRanks chat(world, engine, *tokenizer, {.max_tokens = 6});
      const std::vector<int> first = tokenizer->encode("The Linux kernel is"), other = tokenizer->encode("A file has");
      GeneratedText answers[3];
      std::vector<int> second;
      if (world.rank() == 0) {
        chat.idle();
        std::string streamed;
        answers[0] = chat.answer(first, [&](std::string_view text) { streamed += text; });
        EXPECT_EQ(streamed, answers[0].text);
        second = next_prompt(*tokenizer, first, answers[0], " And the next");
        for (int i = 0; i < 5; ++i) chat.idle();
        answers[1] = chat.answer(second);
        EXPECT_GE(chat.tokens_kept(), std::ssize(first) + 5) << "the prompt and all of the answer but its last token";
        answers[2] = chat.answer(other);
        EXPECT_EQ(chat.turns(), 3);
        chat.end();
      } else {
        chat.follow();
        EXPECT_EQ(chat.turns(), 3);
      }
      const GeneratedText one = fresh(world, model, *tokenizer, first, {.max_tokens = 6});
      const GeneratedText two =
          fresh(world, model, *tokenizer, next_prompt(*tokenizer, first, one, " And the next"), {.max_tokens = 6});
      const GeneratedText three = fresh(world, model, *tokenizer, other, {.max_tokens = 6});
      if (world.rank() != 0) return;
      EXPECT_EQ(answers[0].tokens, one.tokens) << ranks;
      EXPECT_EQ(answers[1].tokens, two.tokens) << ranks;
      EXPECT_EQ(answers[2].tokens, three.tokens) << ranks;
    });
}

// Asked the same again, at least one token goes through the model; a turn that does not fit is refused on rank 0 alone.
TEST(ChatRanks, RepeatAndRefuse) {
  const auto tokenizer = Tokenizer::load(kChatModel);
  World::local(2, [&](World& world) {
    const Model model = Model::load(kChatModel, world.rank(), world.size());
    Engine engine(world, model, {.capacity = 16});
    ChatRanks chat(world, engine, *tokenizer, {.max_tokens = 4});
    if (world.rank() != 0) return chat.follow();
    const std::vector<int> prompt = tokenizer->encode("The Linux kernel is");
    const GeneratedText once = chat.answer(prompt);
    EXPECT_NE(refusal([&] { chat.answer(std::vector<int>(16, 5)); }).find("there is room for 16"), std::string::npos);
    EXPECT_EQ(chat.answer(prompt).tokens, once.tokens);
    EXPECT_EQ(chat.tokens_kept(), std::ssize(prompt) - 1);
    chat.end();
  });
}

// Lines of a person: messages are answered as they come, /new forgets, what cannot be is forgotten again, /exit ends.
TEST(ChatSession, TakesLineAfterLine) {
  const auto tokenizer = Tokenizer::load(kChatModel);
  ScratchFolder folder;
  folder.write("chat_template.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
  World::local(2, [&](World& world) {
    const Model model = Model::load(kChatModel, world.rank(), world.size());
    Engine engine(world, model, {.capacity = 64});
    ChatRanks chat(world, engine, *tokenizer, {.max_tokens = 5});
    if (world.rank() != 0) return chat.follow();
    std::string shown;
    ChatSession session(chat, Conversation(*ChatTemplate::load(folder.path()), *tokenizer, "Be brief."),
                        [&](std::string_view text) { shown += text; });
    EXPECT_TRUE(session.take("The Linux kernel is"));
    ASSERT_EQ(session.messages().size(), 3u);
    EXPECT_EQ(session.messages()[1].content, "The Linux kernel is");
    EXPECT_EQ(shown, session.messages()[2].content + "\n") << "an answer, and the end of its line";
    EXPECT_EQ(session.tokens(), 5);
    EXPECT_TRUE(session.take(" \t"));
    EXPECT_EQ(chat.turns(), 1) << "a blank line is no message";
    std::string long_text;
    for (int i = 0; i < 100; ++i) long_text += "kernel ";
    EXPECT_NE(refusal([&] { session.take(long_text); }).find("there is room for 64"), std::string::npos);
    EXPECT_EQ(session.messages().size(), 3u) << "it was taken back";
    EXPECT_TRUE(session.take("/new"));
    EXPECT_EQ(session.messages().size(), 1u);
    EXPECT_FALSE(session.take("/exit"));
    EXPECT_EQ(chat.turns(), 1);
    chat.end();
  });
}

TEST(TokenRelay, CarriesLongPromptsAndTheEnd) {
  std::vector<int> sent(1000);
  for (int i = 0; i < 1000; ++i) sent[at(i)] = (1 << 24) - 1 - i;
  World::local(3, [&](World& world) {
    TokenRelay relay(world);
    if (world.rank() == 0) {
      for (const std::int64_t count : {1, 254, 255, 1000}) {
        relay.idle();
        relay.tell(std::span(sent).first(num(count)));
      }
      relay.end();
      return;
    }
    for (const std::int64_t count : {1, 254, 255, 1000})
      EXPECT_EQ(relay.hear(), std::vector<int>(sent.begin(), sent.begin() + count));
    EXPECT_EQ(relay.hear(), std::nullopt);
  });
}

TEST(TokenRelay, OneRankTellsNobody) {
  World::local(1, [](World& world) {
    TokenRelay relay(world);
    relay.tell(std::vector<int>{1, 2});
    relay.idle();
    relay.end();
  });
}

}  // namespace
}  // namespace weft
