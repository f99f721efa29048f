// Texts of several clients made together are the texts that each would have got alone.
#include "weft/serve/batch.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/text/tokenizer.h"
#include "weft/serve/batch_ranks.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kBatchModel = WEFT_SOURCE "/models/weft-16";
constexpr std::int64_t kCapacity = 96;

std::shared_ptr<Answer> asked(const Tokenizer& tokenizer, const std::string& text, int max_tokens,
                              SamplerOptions sampler = {}, std::vector<std::string> stops = {}) {
  return std::make_shared<Answer>(
      TextRequest{.prompt = tokenizer.encode(text), .max_tokens = max_tokens, .sampler = sampler, .stops = stops});
}

GeneratedText alone(Engine& engine, const Tokenizer& tokenizer, const TextRequest& request) {
  const GenerateOptions options{.max_tokens = request.max_tokens, .sampler = request.sampler, .stops = request.stops};
  return generate(engine, &tokenizer, {&request.prompt, 1}, options).texts[0];
}

// `lead` on rank 0, with a batch of `options`; the others follow.
void served(int ranks, BatchOptions options,
            const std::function<void(BatchRanks&, Batch&, Engine& fresh, const Tokenizer&, ServeCounts&)>& lead) {
  const auto tokenizer = Tokenizer::load(kBatchModel);
  options.capacity = kCapacity;
  World::local(ranks, [&](World& world) {
    const Model model = Model::load(kBatchModel, world.rank(), world.size());
    Engine engine(world, model, {.sequences = options.sequences, .capacity = kCapacity, .rows = options.rows});
    BatchRanks batch_ranks(world, engine);
    if (world.rank() != 0) return batch_ranks.follow();
    ServeCounts counts;
    Batch batch(*tokenizer, options, counts);
    World::local(1, [&](World& own) {
      const Model whole = Model::load(kBatchModel, 0, 1);
      Engine fresh(own, whole, {.capacity = kCapacity});
      lead(batch_ranks, batch, fresh, *tokenizer, counts);
    });
  });
}

// All of a queue is answered, and the ranks part.
void answer_all(BatchRanks& ranks, Batch& batch, const std::vector<std::shared_ptr<Answer>>& answers) {
  ServeCounts unread;
  AnswerQueue queue(100, unread);
  for (const auto& answer : answers) EXPECT_EQ(queue.push(answer), AnswerQueue::Pushed::waits);
  ranks.lead(batch, queue, [] { return true; });
}

TEST(Batch, TextsMadeTogetherAreThoseMadeAlone) {
  for (const int ranks : {1, 2, 3})
    served(ranks, {.sequences = 3, .rows = 16, .rows_beside = 4},
           [&](BatchRanks& batch_ranks, Batch& batch, Engine& fresh, const Tokenizer& tokenizer, ServeCounts& counts) {
             std::vector<std::shared_ptr<Answer>> answers;
             const std::string texts[] = {"The Linux kernel is", "A file has a name, an owner and", "Memory",
                                          "A process that waits for a lock is put to sleep until it", "To mount"};
             for (int i = 0; i < 5; ++i) answers.push_back(asked(tokenizer, texts[i], 5 + 4 * i));
             answers.push_back(asked(tokenizer, texts[0], 12, {.temperature = 0.8, .top_k = 20, .seed = 3}));
             answers.push_back(asked(tokenizer, texts[1], 30, {}, {"e"}));
             answer_all(batch_ranks, batch, answers);
             std::int64_t tokens = 0;
             for (const auto& answer : answers) {
               const Answer::News news = answer->wait(std::chrono::milliseconds(0));
               const GeneratedText want = alone(fresh, tokenizer, answer->request());
               EXPECT_EQ(news.text, want.text) << ranks << " ranks";
               ASSERT_TRUE(news.ending);
               EXPECT_EQ(*news.ending, want.ending);
               EXPECT_EQ(news.usage.prompt_tokens, std::ssize(answer->request().prompt));
               EXPECT_EQ(news.usage.completion_tokens, std::ssize(want.tokens));
               tokens += news.usage.completion_tokens;
             }
             EXPECT_EQ(counts.completion_tokens, tokens);
             EXPECT_EQ(counts.ended, 7);
             EXPECT_EQ(counts.running, 0);
             EXPECT_LT(counts.passes, tokens) << "several texts grow in one pass";
             EXPECT_EQ(counts.rows, counts.prompt_tokens - counts.cached_tokens + tokens - counts.ended)
                 << "every token enters once, but the last of each text";
           });
}

// The second turn of a conversation takes the sequence of the first; another that shares its beginning gets a copy, so
// that the first goes on from where it was.
TEST(Batch, PromptsBeginWithWhatASequenceHas) {
  for (const int ranks : {1, 2})
    served(ranks, {.sequences = 2, .rows = 64},
           [&](BatchRanks& batch_ranks, Batch& batch, Engine& fresh, const Tokenizer& tokenizer, ServeCounts& counts) {
             AnswerQueue queue(10, counts);
             const auto first = asked(tokenizer, "The Linux kernel is a program that", 6);
             const GeneratedText one = alone(fresh, tokenizer, first->request());
             TextRequest more = first->request();
             more.prompt.insert(more.prompt.end(), one.tokens.begin(), one.tokens.end());
             const std::vector<int> tail = tokenizer.encode(" And the next");
             more.prompt.insert(more.prompt.end(), tail.begin(), tail.end());
             const auto second = std::make_shared<Answer>(more);
             TextRequest branch = first->request();
             branch.prompt.back() = tokenizer.encode("file")[0];
             const auto third = std::make_shared<Answer>(branch);
             // One after another: each is asked for when the one before has been answered.
             more.prompt.push_back(tail.front());  // what the second said is not asked for: its prompt goes on
             const auto fourth = std::make_shared<Answer>(more);
             std::vector<std::shared_ptr<Answer>> turns{first, second, third, fourth};
             std::size_t next = 0;
             ASSERT_EQ(queue.push(turns[next++]), AnswerQueue::Pushed::waits);
             Answer::News news[4];
             batch_ranks.lead(batch, queue, [&] {
               for (std::size_t i = 0; i < next; ++i) {
                 const Answer::News now = turns[i]->wait(std::chrono::milliseconds(0));
                 const std::string text = news[i].text + now.text;
                 news[i] = now, news[i].text = text;
               }
               if (news[next - 1].ended && next < turns.size()) queue.push(turns[next++]);
               return next == turns.size() && news[3].ended;
             });
             for (int i = 0; i < 4; ++i)
               EXPECT_EQ(news[i].text, alone(fresh, tokenizer, turns[at(i)]->request()).text) << i;
             const std::int64_t prompt = std::ssize(first->request().prompt);
             EXPECT_EQ(news[0].usage.cached_tokens, 0);
             EXPECT_EQ(news[1].usage.cached_tokens, prompt + 5) << "all of the answer but its last token";
             EXPECT_EQ(news[2].usage.cached_tokens, prompt - 1);
             EXPECT_EQ(news[3].usage.cached_tokens, std::ssize(more.prompt) - 1) << "the third left it whole";
           });
}

TEST(Batch, WhoGoesAwayIsForgottenAndOthersGoOn) {
  served(2, {.sequences = 2, .rows = 32},
         [](BatchRanks& batch_ranks, Batch& batch, Engine& fresh, const Tokenizer& tokenizer, ServeCounts& counts) {
           const auto gone = asked(tokenizer, "The Linux kernel is", 60), stays = asked(tokenizer, "A file has", 20);
           const auto unheard = asked(tokenizer, "The Linux kernel was", 60);
           AnswerQueue queue(3, counts);
           for (const auto& answer : {gone, stays, unheard}) queue.push(answer);
           unheard->give_up();
           std::string text;
           bool ended = false;
           int looks = 0;
           batch_ranks.lead(batch, queue, [&] {
             if (++looks == 5) gone->give_up();
             const Answer::News news = stays->wait(std::chrono::milliseconds(0));
             text += news.text, ended = ended || news.ended;
             return ended;
           });
           EXPECT_EQ(text, alone(fresh, tokenizer, stays->request()).text);
           EXPECT_EQ(counts.given_up, 2);
           EXPECT_EQ(counts.ended, 1);
           EXPECT_EQ(counts.running, 0);
           EXPECT_FALSE(gone->wait(std::chrono::milliseconds(0)).ended);
         });
}

TEST(Batch, ATextEndsWhereItsSequenceIsFull) {
  served(1, {.sequences = 1},
         [](BatchRanks& batch_ranks, Batch& batch, Engine& fresh, const Tokenizer& tokenizer, ServeCounts&) {
           const auto answer = asked(tokenizer, "The Linux kernel is", 1000);
           answer_all(batch_ranks, batch, {answer});
           const Answer::News news = answer->wait(std::chrono::milliseconds(0));
           EXPECT_EQ(*news.ending, Ending::length);
           EXPECT_EQ(news.text, alone(fresh, tokenizer, answer->request()).text);
           EXPECT_EQ(news.usage.prompt_tokens + news.usage.completion_tokens, kCapacity + 1);
         });
}

TEST(Batch, MoreTextsThanRowsAreRefused) {
  const auto tokenizer = Tokenizer::load(kBatchModel);
  ServeCounts counts;
  EXPECT_NE(refusal([&] { Batch(*tokenizer, {.sequences = 5, .rows = 4}, counts); }).find("5 texts at once"),
            std::string::npos);
}

TEST(Pass, IsTheSameAsNumbers) {
  const Pass pass{.begins = {{1, 0, 17}, {2, 2, 0}}, .parts = {{1, {5, 6, 7}, true}, {2, {8}, false}}, .greedy = false};
  EXPECT_EQ(Pass::of_words(pass.words()), pass);
  EXPECT_EQ(Pass::of_words(Pass{}.words()), Pass{});
}

TEST(AnswerQueue, TakesSoManyAndThenNoMore) {
  ServeCounts counts;
  AnswerQueue queue(1, counts);
  const auto answer = std::make_shared<Answer>(TextRequest{}), other = std::make_shared<Answer>(TextRequest{});
  EXPECT_FALSE(queue.wait(std::chrono::milliseconds(1)));
  EXPECT_EQ(queue.push(answer), AnswerQueue::Pushed::waits);
  EXPECT_EQ(queue.push(other), AnswerQueue::Pushed::full);
  EXPECT_TRUE(queue.wait(std::chrono::milliseconds(1)));
  queue.fail_all("the ranks have parted");
  EXPECT_EQ(queue.push(other), AnswerQueue::Pushed::closed);
  const Answer::News news = answer->wait(std::chrono::milliseconds(0));
  EXPECT_TRUE(news.ended && !news.ending);
  EXPECT_EQ(news.failure, "the ranks have parted");
  EXPECT_EQ(queue.pop(), nullptr);
}

TEST(AnswerQueue, HasRoomWhereSomebodyHasLeft) {
  ServeCounts counts;
  AnswerQueue queue(1, counts);
  const auto gone = std::make_shared<Answer>(TextRequest{}), stays = std::make_shared<Answer>(TextRequest{});
  EXPECT_EQ(queue.push(gone), AnswerQueue::Pushed::waits);
  gone->give_up();
  EXPECT_EQ(queue.push(stays), AnswerQueue::Pushed::waits);
  EXPECT_EQ(queue.size(), 1u);
  EXPECT_EQ(counts.given_up, 1);
  stays->give_up();
  EXPECT_EQ(queue.pop(), nullptr) << "nobody reads it";
  EXPECT_EQ(counts.given_up, 2);
}

// What is thrown on the way is told to those whose texts are being made and to those who wait.
TEST(Batch, AFailureIsToldToAll) {
  const auto tokenizer = Tokenizer::load(kBatchModel);
  World::local(1, [&](World& world) {
    const Model model = Model::load(kBatchModel, 0, 1);
    Engine engine(world, model, {.sequences = 1, .capacity = 8});
    BatchRanks ranks(world, engine);
    ServeCounts counts;
    Batch batch(*tokenizer, {.sequences = 1, .capacity = 100}, counts);  // more than the engine has
    AnswerQueue queue(2, counts);
    const auto made = asked(*tokenizer, "The Linux kernel is", 50), waits = asked(*tokenizer, "A", 5);
    queue.push(made), queue.push(waits);
    EXPECT_THROW(ranks.lead(batch, queue, [] { return false; }), Error);
    for (const auto& answer : {made, waits}) {
      const Answer::News news = answer->wait(std::chrono::milliseconds(0));
      EXPECT_TRUE(news.ended && !news.ending) << news.text;
      EXPECT_FALSE(news.failure.empty());
    }
    EXPECT_EQ(counts.running, 0);
  });
}

}  // namespace
}  // namespace weft
