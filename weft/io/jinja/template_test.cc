// Chat templates against transformers: golden texts from tools/golden_chat.py. What it refuses is refused here too.
#include "weft/io/jinja/template.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/write_gguf.h"
#include "weft/io/text/chat_template.h"

namespace weft::jinja {
namespace {

// Another folder of templates and what transformers makes of them, for whoever has some (tools/golden_chat.py FOLDER).
const std::string kChatFolder = std::getenv("WEFT_CHAT_FOLDER") != nullptr
                                    ? std::string(std::getenv("WEFT_CHAT_FOLDER")) + "/"
                                    : WEFT_SOURCE "/tests/chat/";

const nlohmann::ordered_json& golden_chat() {
  static const auto* const kGolden =
      new nlohmann::ordered_json(nlohmann::ordered_json::parse(read_text_file(kChatFolder + "golden.json", 1 << 24)));
  return *kGolden;
}

Dict variables_of(const nlohmann::ordered_json& row) {
  Dict out;
  for (const char* name : {"bos_token", "eos_token"}) out.set(name, Value::from_json(golden_chat()[name]));
  out.set("messages", Value::from_json(golden_chat()["conversations"][row["conversation"].get<std::size_t>()]));
  out.set("add_generation_prompt", Value::of(row["begins"].get<bool>()));
  out.set("tools", Value::none());
  out.set("documents", Value::none());
  return out;
}

std::string source_of(const nlohmann::ordered_json& row) {
  return row.contains("snippet") ? row["snippet"].get<std::string>()
                                 : read_text_file(kChatFolder + row["template"].get<std::string>(), 1 << 20);
}

TEST(Jinja, RendersAsTransformers) {
  int rendered = 0, refused = 0;
  for (const auto& row : golden_chat()["rows"]) {
    const std::string name = row.contains("snippet") ? row["snippet"].dump() : row["template"].dump();
    std::string text;
    const std::string said = refusal([&] { text = Template::parse(source_of(row), "t").render(variables_of(row)); });
    if (row["text"].is_null()) {
      EXPECT_NE(said, "did not throw") << name << " gives " << text;
      ++refused;
      continue;
    }
    EXPECT_EQ(said, "did not throw") << name;
    EXPECT_EQ(text, row["text"].get<std::string>()) << name << " conversation " << row["conversation"];
    ++rendered;
  }
  EXPECT_GT(rendered, 120);
  EXPECT_GT(refused, 10);
}

std::string rendered(const char* text) { return Template::parse(text, "t").render({}, {.now = 1}); }

TEST(Jinja, WhatIsNotDoneIsRefusedWithFileAndLine) {
  const auto said = [](const char* text) { return refusal([&] { rendered(text); }); };
  EXPECT_EQ(said("a\n{% include 'x' %}"),
            "t: line 2 of the chat template: {% include %} is not done here; if, for, set, macro, generation, break, "
            "continue and raw are");
  EXPECT_EQ(said("\n\n{{ x | wordwrap }}"), "t: line 3 of the chat template: the filter \"wordwrap\" is not done here");
  EXPECT_EQ(said("{{ 'a'.encode() }}"),
            "t: line 1 of the chat template: the method \"encode\" of a string is not done here");
  EXPECT_EQ(said("{{ raise_exception('Roles!') }}"),
            "t: line 1 of the chat template: it refuses these messages: Roles!");
  EXPECT_EQ(said("{{ open('/etc/passwd') }}"),
            "t: line 1 of the chat template: the function \"open\" is not done here");
  EXPECT_EQ(said("{% if x %}"), "t: line 1 of the chat template: {% endif %} is missing");
  for (const char* text :
       {"{{", "{{ 'a }}", "{% for %}", "{{ ( }}", "{{ [1 }}", "{{ x.__class__.mro() }}", "{% break %}", "{# a",
        "{% raw %}", "{{ 99999999999999999999 }}", "{{ 1 ? 2 }}", "{% set a, b = 1 %}"})
    EXPECT_NE(said(text), "did not throw") << text;
}

TEST(Jinja, WhatRunsAwayIsStopped) {
  const auto said = [](const std::string& text) {
    return refusal([&] { Template::parse(text, "t").render({}, {.most_steps = 200'000}); });
  };
  EXPECT_NE(said("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}").find("steps"),
            std::string::npos);
  const std::string twice =
      "{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}";
  EXPECT_NE(said(twice).find("it is refused"), std::string::npos) << said(twice);
  const std::string nested =
      "{% set ns = namespace(s=[]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}";
  EXPECT_NE(said(nested).find("too large"), std::string::npos);
  EXPECT_NE(said("{% set ns = namespace() %}{% set ns.self = [ns] %}").find("namespace"), std::string::npos);
  EXPECT_NE(said("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("too deep"), std::string::npos);
  EXPECT_NE(said("{{ range(1000000) }}").find("100000"), std::string::npos);
  EXPECT_NE(said("{{ 'x' * 99999999999 }}").find("too often"), std::string::npos);
  EXPECT_NE(said("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}").find("too deep"),
            std::string::npos);
  std::string ifs;
  for (int i = 0; i < 500; ++i) ifs += "{% if true %}";
  EXPECT_NE(said(ifs).find("too deep"), std::string::npos);
  EXPECT_EQ(rendered("{{ '' * 999999999999 }}"), "");
}

TEST(Jinja, TellsTheDateThatItIsGiven) {
  EXPECT_EQ(Template::parse("{{ strftime_now('%Y') }}", "t").render({}, {.now = 1'000'000'000}), "2001");
}

TEST(Jinja, MutantsAreTakenOrRefused) {
  for (const auto& file : std::filesystem::directory_iterator(kChatFolder)) {
    if (file.path().extension() != ".jinja") continue;
    const std::string text = read_text_file(file.path().string(), 1 << 20);
    const Dict variables = variables_of(golden_chat()["rows"][2]);
    const FuzzCounts counts = fuzz(text, 400, [&](const std::string& mutant) {
      Template::parse(mutant, "t").render(variables, {.now = 1, .most_steps = 20'000, .most_bytes = 1 << 20});
    });
    EXPECT_GT(counts.taken + counts.refused, 300) << file.path();
  }
  fuzz(
      "{% set ns = namespace(a=[1]) %}{% for i in [1,2,3][::-1] if i %}{% set ns.a = ns.a + [i] %}{{ "
      "ns.a|tojson(indent=2) }}"
      "{{ 'abc'.split('b')[0].strip()|upper ~ loop.index }}{% endfor %}{% macro m(x='y') %}{{ x }}{% endmacro %}{{ m() "
      "* 3 }}",
      6000, [](const std::string& mutant) {
        Template::parse(mutant, "t").render({}, {.now = 1, .most_steps = 20'000, .most_bytes = 1 << 20});
      });
}

TEST(ChatTemplate, IsFoundInAFolder) {
  ScratchFolder folder;
  EXPECT_FALSE(ChatTemplate::load(folder.path()));
  const std::vector<ChatMessage> messages{{"user", "hi"}};
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>"}, "chat_template": "{{ bos_token }}{{ messages[0].content }}"})");
  EXPECT_EQ(ChatTemplate::load(folder.path())->prompt(messages), "<s>hi");
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(ChatTemplate::load(folder.path())->prompt(messages), "d");
  folder.write("chat_template.jinja", "{{ messages[0].role }}{% if add_generation_prompt %}>{% endif %}");
  EXPECT_EQ(ChatTemplate::load(folder.path())->prompt(messages), "user>");
  EXPECT_EQ(ChatTemplate::load(folder.path())->prompt(messages, {.answer_begins = false}), "user");
  folder.write("chat_template.jinja", "{% if %}");
  EXPECT_NE(refusal([&] { ChatTemplate::load(folder.path()); }).find("chat_template.jinja: line 1"), std::string::npos);
}

TEST(ChatTemplate, IsFoundInAGgufFile) {
  ScratchFolder folder;
  const std::string path = folder.file("x.gguf");
  std::vector<std::pair<std::string, GgufSetting>> settings = {
      {"tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "</s>"}},
      {"tokenizer.ggml.bos_token_id", std::uint32_t{0}},
      {"tokenizer.ggml.eos_token_id", std::uint32_t{1}}};
  write_gguf(path, settings, {});
  EXPECT_FALSE(ChatTemplate::load(path));
  settings.push_back(
      {"tokenizer.chat_template", std::string("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}")});
  write_gguf(path, settings, {});
  const std::vector<ChatMessage> messages{{"user", "hi"}};
  EXPECT_EQ(ChatTemplate::load(path)->prompt(messages), "<s>hi</s>");
  EXPECT_EQ(chat_template_text(path), "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  settings[1].second = std::uint32_t{7};
  write_gguf(path, settings, {});
  EXPECT_NE(refusal([&] { ChatTemplate::load(path); }).find("tokenizer.ggml.bos_token_id"), std::string::npos);
}

}  // namespace
}  // namespace weft::jinja
