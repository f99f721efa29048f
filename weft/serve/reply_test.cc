// Replies, letter by letter: clients of OpenAI's API read them.
#include "weft/serve/reply.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

const ReplyHead kPlain{"cmpl-1", 7, "weft-16", false}, kChat{"chatcmpl-2", 7, "weft-16", true};
constexpr Usage kUsage{.prompt_tokens = 5, .cached_tokens = 2, .completion_tokens = 3};

TEST(Reply, Whole) {
  EXPECT_EQ(
      whole_reply(kPlain, "a\n", Ending::length, kUsage),
      R"({"id":"cmpl-1","object":"text_completion","created":7,"model":"weft-16","choices":[{"index":0,"text":"a\n",)"
      R"("logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8,)"
      R"("prompt_tokens_details":{"cached_tokens":2}}})"
      "\n");
  EXPECT_EQ(
      whole_reply(kChat, "a", Ending::eos, kUsage),
      R"({"id":"chatcmpl-2","object":"chat.completion","created":7,"model":"weft-16","choices":[{"index":0,"message":)"
      R"({"role":"assistant","content":"a"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":5,)"
      R"("completion_tokens":3,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":2}}})"
      "\n");
}

TEST(Reply, InEvents) {
  const std::string head =
      R"(data: {"id":"chatcmpl-2","object":"chat.completion.chunk","created":7,"model":"weft-16",)";
  const std::string choice = R"("choices":[{"index":0,"delta":)";
  const std::string open = R"(,"logprobs":null,"finish_reason":null}]})"
                           "\n\n";
  EXPECT_EQ(begin_event(kChat), head + choice + R"({"role":"assistant","content":""})" + open);
  EXPECT_EQ(begin_event(kPlain), "");
  EXPECT_EQ(text_event(kChat, "a"), head + choice + R"({"content":"a"})" + open);
  EXPECT_EQ(end_event(kChat, Ending::stop), head + choice +
                                                R"({},"logprobs":null,"finish_reason":"stop"}]})"
                                                "\n\n");
  EXPECT_EQ(usage_event(kChat, kUsage), head + R"("choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,)"
                                               R"("total_tokens":8,"prompt_tokens_details":{"cached_tokens":2}}})"
                                               "\n\n");
  EXPECT_EQ(text_event(kPlain, "\x80"),
            "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":7,\"model\":\"weft-16\",\"choices\":["
            "{\"index\":0,\"text\":\"\xEF\xBF\xBD\",\"logprobs\":null,\"finish_reason\":null}]}\n\n")
      << "what is no character is replaced";
}

TEST(Reply, RefusalsAndModels) {
  EXPECT_EQ(refusal_reply({404, "invalid_request_error", "model_not_found"}, "no \"x\""),
            R"({"error":{"message":"no \"x\"","type":"invalid_request_error","param":null,"code":"model_not_found"}})"
            "\n");
  EXPECT_EQ(
      models_reply({"weft-16", 7, 512, 2048, true}),
      R"({"object":"list","data":[{"id":"weft-16","object":"model","created":7,"owned_by":"weft","max_model_len":512,)"
      R"("vocab_size":2048,"chat":true}]})"
      "\n");
}

TEST(Reply, Metrics) {
  ServeCounts counts;
  counts.passes = 12;
  const std::string text = metrics_reply(counts, 3);
  EXPECT_NE(text.find("# TYPE weft_waiting gauge\nweft_waiting 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE weft_passes_total counter\nweft_passes_total 12\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace weft
