// Files of llama.cpp's converter against transformers' logits; folders written as GGUF files and read back: names, the
// order of rotary rows, and logits at every number of ranks.
#include "weft/llm/gguf/gguf_model.h"

#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/gguf.h"
#include "weft/io/tensor/write_gguf.h"
#include "weft/llm/engine/engine.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/tensor_names.h"
#include "weft/llm/quantise/quantise_model.h"
#include "weft/world/world.h"

namespace weft {
namespace {

const std::string kWeft16 = std::string(WEFT_SOURCE) + "/models/weft-16";

// Written once for all tests.
const std::string& quantised_file(Dtype type) {
  static const ScratchFolder folder;
  static std::map<Dtype, std::string> files;
  auto& file = files[type];
  if (file.empty()) {
    file = folder.file(std::string(to_string(type)) + ".gguf");
    quantise_model(kWeft16, file, {.type = type, .threads = 2});
  }
  return file;
}

const std::string kGgufModels = std::string(WEFT_SOURCE) + "/tests/gguf/models/";

std::string gguf_golden_file(const std::string& name) {
  return kGgufModels + name + (name == "llama" ? "/model-00001-of-00003.gguf" : "/model.gguf");
}

TEST(GgufModel, NamesAreThoseOfLlamaCpp) {
  const ModelConfig config = load_config(quantised_file(Dtype::q8_0));
  EXPECT_EQ(weight_name(config, 3, BlockPart::up), "blk.3.ffn_up.weight");
  EXPECT_EQ(bias_name(config, 12, BlockPart::q), "blk.12.attn_q.bias");
  EXPECT_EQ(weight_name(config, 0, BlockPart::norm2), "blk.0.ffn_norm.weight");
  EXPECT_EQ(embedding_name(config), "token_embd.weight");
  EXPECT_EQ(config.head, "output.weight");
  EXPECT_EQ(weight_name(load_config(gguf_golden_file("phi3")), 1, BlockPart::k), "blk.1.attn_qkv.weight");
  EXPECT_EQ(weight_name(load_config(gguf_golden_file("olmo2")), 1, BlockPart::post_norm2),
            "blk.1.post_ffw_norm.weight");
}

TEST(GgufModel, PairedRowsAreAPermutation) {
  for (const std::int64_t head : {2, 8, 64}) {
    std::vector<bool> seen(num(3 * head));
    for (std::int64_t r = 0; r < 3 * head; ++r) {
      const std::int64_t row = gguf_row(r, head);
      EXPECT_EQ(row / head, r / head) << "within its head";
      seen[at(row)] = true;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 3 * head);
  }
  EXPECT_EQ(gguf_row(1, 8), 2);  // the second of the first half comes behind the first of the second
  EXPECT_EQ(gguf_row(4, 8), 1);
}

TEST(GgufModel, TheConfigComesBack) {
  const ModelConfig folder = load_config(kWeft16), file = load_config(quantised_file(Dtype::q8_0));
  EXPECT_EQ(file.design, folder.design);
  EXPECT_EQ(file.vocab, folder.vocab);
  EXPECT_EQ(file.hidden, folder.hidden);
  EXPECT_EQ(file.blocks, folder.blocks);
  EXPECT_EQ(file.heads, folder.heads);
  EXPECT_EQ(file.kv_heads, folder.kv_heads);
  EXPECT_EQ(file.head_dim, folder.head_dim);
  EXPECT_EQ(file.intermediate, folder.intermediate);
  EXPECT_EQ(file.max_positions, folder.max_positions);
  EXPECT_EQ(file.tied_head, folder.tied_head);
  EXPECT_EQ(file.eos, folder.eos);
  EXPECT_FLOAT_EQ(static_cast<float>(file.norm_eps), static_cast<float>(folder.norm_eps));
}

float value_of(const Weight& w, std::int64_t row, std::int64_t col) {
  float out = 0;
  if (is_blocked(w.dtype))
    dequantise(w.dtype, static_cast<const std::byte*>(w.data) + row * row_bytes(w.dtype, w.ld), w.first + col, 1, &out);
  else
    out = to_float(static_cast<const bf16*>(w.data)[row * w.ld + col]);
  return out;
}

// Every part of every rank has the values of the folder's, and none was widened.
TEST(GgufModel, RanksHaveTheirPartsInBlocks) {
  for (const Dtype type : {Dtype::q8_0, Dtype::q6_k})
    for (const int ranks : {1, 2, 3, 5}) {
      const int rank = ranks - 1;
      const Model folder = Model::load(kWeft16, rank, ranks), file = Model::load(quantised_file(type), rank, ranks);
      const BlockWeights &a = folder.block(7), &b = file.block(7);
      for (const auto& [wanted, got] : {std::pair<const Weight*, const Weight*>{&a.q, &b.q},
                                        {&a.k, &b.k},
                                        {&a.v, &b.v},
                                        {&a.o, &b.o},
                                        {&a.gate, &b.gate},
                                        {&a.up, &b.up},
                                        {&a.down, &b.down}}) {
        EXPECT_EQ(got->dtype, type);
        ASSERT_EQ(got->rows, wanted->rows);
        ASSERT_EQ(got->cols, wanted->cols);
        double off = 0, all = 0;
        for (std::int64_t r = 0; r < got->rows; r += 3)
          for (std::int64_t c = 0; c < got->cols; c += 5) {
            const double value = value_of(*wanted, r, c);
            off += std::pow(value_of(*got, r, c) - value, 2), all += value * value;
          }
        EXPECT_LT(std::sqrt(off / all), type == Dtype::q8_0 ? 0.01 : 0.03) << ranks;
      }
      EXPECT_LT(file.bytes_per_token(), folder.bytes_per_token() * 0.6) << ranks;
    }
}

std::vector<float> logits_of_file(const std::string& model_file, int ranks, const GoldenPrompt& prompt, Style sync) {
  std::vector<float> out;
  World::local(ranks, [&](World& world) {
    const Model model = Model::load(model_file, world.rank(), world.size());
    Engine engine(world, model, {.rows = 64, .sync = sync});
    const Feed feed{0, prompt.ids};
    engine.forward({&feed, 1});
    std::vector<int> rows(num(engine.rows()));
    std::iota(rows.begin(), rows.end(), 0);
    const std::vector<float> logits = engine.logits(rows);
    if (world.rank() == 0) out = logits;
  });
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i])),
    largest = std::max(largest, std::abs(double{a[i]}));
  return worst / largest;
}

// Splits over k fall inside blocks of 256 here: the output projection's at 128 with 2 ranks, at 96 with 3. Parts of 32
// are rounded alike however many ranks there are; a sum in another order moves few of them to the next byte, which the
// largest of all differences shows (seen: 0.016). A wrong column or row would be of the size of the logits.
constexpr double kAnotherOrder = 0.04;

TEST(GgufModel, LogitsAreThoseOfTheFolderAtEveryNumberOfRanks) {
  const GoldenPrompt prompt = golden_prompts(kWeft16)[0];
  for (const auto& [type, near] :
       {std::pair<Dtype, double>{Dtype::q8_0, 0.05}, {Dtype::q6_k, 0.1}, {Dtype::q4_k, 0.35}, {Dtype::q4_0, 0.5}}) {
    const std::vector<float> one = logits_of_file(quantised_file(type), 1, prompt, Style::fused);
    EXPECT_LT(golden_error(prompt, one), near) << to_string(type);
    EXPECT_GT(golden_error(prompt, one), 1e-5) << "these are weights of fewer bits";
    for (const int ranks : {2, 3, 4})
      EXPECT_LT(largest_difference(one, logits_of_file(quantised_file(type), ranks, prompt, Style::fused)),
                kAnotherOrder)
          << to_string(type) << ", " << ranks << " ranks";
    EXPECT_LT(largest_difference(one, logits_of_file(quantised_file(type), 2, prompt, Style::panels)), kAnotherOrder);
  }
}

// Tiles made from blocks while others travel have the bits of the whole product made before.
TEST(GgufModel, FusedAndSequentialLogitsAreTheSame) {
  const GoldenPrompt prompt = golden_prompts(kWeft16)[0];
  for (const Dtype type : {Dtype::q8_0, Dtype::q4_k})
    for (const int ranks : {2, 3})
      EXPECT_EQ(logits_of_file(quantised_file(type), ranks, prompt, Style::fused),
                logits_of_file(quantised_file(type), ranks, prompt, Style::sequential))
          << to_string(type) << " " << ranks;
}

// Files that llama.cpp's converter wrote, logits that transformers computed of the folder
// (tools/golden_gguf_models.py).
TEST(GgufModel, FilesOfLlamaCppGiveTransformersLogits) {
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "olmo2", "granite",
                           "smollm3", "gpt2", "neox"}) {
    const auto prompts = golden_prompts(kGgufModels + name);
    ASSERT_EQ(prompts.size(), 3u) << name;
    for (const int ranks : {1, 2, 3, 4, 5, 8})
      EXPECT_LT(golden_error(prompts[2], logits_of_file(gguf_golden_file(name), ranks, prompts[2], Style::fused)), 1e-4)
          << name << ", " << ranks << " ranks";
    // Its rates for short texts are not those of an engine with room for long ones.
    if (name == std::string("phi3")) continue;
    EXPECT_LT(golden_error(prompts[1], logits_of_file(gguf_golden_file(name), 1, prompts[1], Style::fused)), 1e-4)
        << name;
  }
}

TEST(GgufModel, PartsOfAModelBelongTogether) {
  const ScratchFolder folder;
  const std::string first = folder.file("x-00001-of-00003.gguf");
  std::filesystem::copy_file(kGgufModels + "llama/model-00001-of-00003.gguf", first);
  EXPECT_NE(refusal([&] { load_config(first); }).find("x-00002-of-00003.gguf"), std::string::npos);
  const std::string second = kGgufModels + "llama/model-00002-of-00003.gguf";
  EXPECT_EQ(refusal([&] { load_config(second); }),
            second + ": this is one of 3 files; give the first, whose name ends with -00001-of-00003.gguf");
  for (const char* part : {"2", "3"})  // the same part twice
    std::filesystem::copy_file(second, folder.file(std::string("x-0000") + part + "-of-00003.gguf"));
  EXPECT_NE(refusal([&] { load_config(first); }).find("is in another of the 3 files too"), std::string::npos);
}

TEST(GgufModel, WhatIsNotComputedIsRefused) {
  const ScratchFolder folder;
  const std::string path = folder.file("x.gguf");
  using Settings = std::vector<std::pair<std::string, GgufSetting>>;
  const auto said = [&](const Settings& settings) {
    write_gguf(path, settings, {});
    return refusal([&] { load_config(path); });
  };
  EXPECT_EQ(said({{"general.architecture", std::string("mamba")}}),
            path +
                ": setting \"general.architecture\" is \"mamba\"; of GGUF files llama, qwen2, qwen3, gemma2, gemma3, "
                "phi3, olmo2, granite, smollm3, gpt2, gptneox are read, others from their folders");
  EXPECT_NE(said({{"general.architecture", std::string("llama")}, {"llama.expert_count", std::uint32_t{8}}})
                .find("models of experts are not run"),
            std::string::npos);
  EXPECT_NE(said({}).find("there is no setting \"general.architecture\""), std::string::npos);
  EXPECT_NE(said({{"general.architecture", std::string("llama")}}).find("no tensor \"token_embd.weight\""),
            std::string::npos);
}

// A small whole model of an architecture, with settings beside its own and tensors beside its own.
std::string said_with(const std::string& architecture, const std::vector<std::pair<std::string, GgufSetting>>& more,
                      const char* tensor = nullptr) {
  const ScratchFolder folder;
  const std::string path = folder.file("x.gguf"), a = architecture + ".";
  std::vector<std::pair<std::string, GgufSetting>> settings = {
      {"general.architecture", architecture},         {a + "context_length", std::uint32_t{16}},
      {a + "embedding_length", std::uint32_t{4}},     {a + "block_count", std::uint32_t{1}},
      {a + "feed_forward_length", std::uint32_t{4}},  {a + "attention.head_count", std::uint32_t{1}},
      {a + "attention.layer_norm_rms_epsilon", 1e-5f}};
  settings.insert(settings.end(), more.begin(), more.end());
  std::vector<GgufTensor> tensors = {
      {"token_embd.weight", StoredDtype::f32, {4, 4}, [] { return std::vector<std::byte>(64); }}};
  if (tensor != nullptr) tensors.push_back({tensor, StoredDtype::f32, {4}, [] { return std::vector<std::byte>(16); }});
  write_gguf(path, settings, tensors);
  const std::string message = refusal([&] { load_config(path); });
  return message.substr(std::min(message.size(), path.size() + 2));
}

TEST(GgufModel, SettingsAndTensorsThatNobodyReadsAreRefused) {
  EXPECT_EQ(said_with("qwen2", {}), "");  // as it stands it is taken
  EXPECT_EQ(said_with("qwen2", {{"qwen2.attention.clamp_kqv", 4.0f}}),
            "setting \"qwen2.attention.clamp_kqv\" is one that Weft does not know, so it could change what the model "
            "computes");
  EXPECT_NE(said_with("gemma3", {{"gemma3.attn_logit_softcapping", 4.0f}}).find("does not know"), std::string::npos);
  EXPECT_EQ(said_with("qwen2", {{"qwen2.vocab_size", std::uint32_t{4}}}), "");  // changes nothing
  EXPECT_NE(said_with("qwen2", {}, "blk.0.attn_sinks.weight").find("tensor \"blk.0.attn_sinks.weight\" is none"),
            std::string::npos);
  EXPECT_NE(said_with("olmo2", {{"olmo2.attention.sliding_window", std::uint32_t{8}}}).find("windows are read of"),
            std::string::npos);
  EXPECT_NE(said_with("llama", {{"llama.rope.dimension_count", std::uint32_t{2}}}).find("heads turned in part"),
            std::string::npos);
  EXPECT_NE(
      said_with("qwen2", {{"qwen2.rope.scaling.type", std::string("su")}}).find("none, linear, yarn and longrope"),
      std::string::npos);
  EXPECT_NE(said_with("granite", {{"granite.rope.scaling.finetuned", false}}).find("has no positions"),
            std::string::npos);
}

// What a hostile file says becomes a refusal, or a model that can be loaded.
TEST(GgufModel, MutantsAreTakenOrRefused) {
  const ScratchFolder folder;
  for (const char* name : {"gemma3", "phi3"}) {
    const std::string original = read_text_file(gguf_golden_file(name), std::size_t{1} << 24);
    const FuzzCounts counts =
        fuzz(original, 500, [&](const std::string& mutant) { Model::load(folder.write("x.gguf", mutant), 1, 3); });
    EXPECT_GT(counts.taken, 20) << name;
    EXPECT_GT(counts.refused, 100) << name;
  }
}

TEST(QuantiseModel, FormatsFitTheRows) {
  EXPECT_EQ(fitting_format(Dtype::q4_k, 512), Dtype::q4_k);
  EXPECT_EQ(fitting_format(Dtype::q4_k, 96), Dtype::q4_0);
  EXPECT_EQ(fitting_format(Dtype::q6_k, 96), Dtype::q8_0);
  EXPECT_EQ(fitting_format(Dtype::q8_0, 96), Dtype::q8_0);
  EXPECT_EQ(fitting_format(Dtype::q8_0, 40), Dtype::f32);
}

TEST(QuantiseModel, SaysWhatItWrote) {
  const ScratchFolder folder;
  const QuantiseReport report =
      quantise_model(golden_folder("llama-gqa"), folder.file("x.gguf"), {.type = Dtype::q4_k});  // rows of 96 and 160
  EXPECT_EQ(report.tensors.at("q4_0"), 3 * 7);
  EXPECT_EQ(report.tensors.at("q8_0"), 1);  // the embedding: q6_k does not fit
  EXPECT_EQ(report.tensors.at("f32"), 7);
  EXPECT_FALSE(report.has_tokenizer);
  EXPECT_LT(report.bytes_written, report.bytes_read);
  EXPECT_NE(refusal([&] {
              quantise_model(golden_folder("opt-bias"), folder.file("y.gguf"), {});
            }).find("llama.cpp has no files of the family opt"),
            std::string::npos);
}

// Grouped heads, scaled rotary positions and an own head: the order of rotary rows is undone for each.
TEST(QuantiseModel, SmallModelsComeBack) {
  const ScratchFolder folder;
  for (const char* name : {"llama-gqa", "llama-untied"}) {
    const std::string file = folder.file(std::string(name) + ".gguf");
    quantise_model(golden_folder(name), file, {.type = Dtype::q8_0});
    const GoldenPrompt prompt = golden_prompts(golden_folder(name))[0];
    for (const int ranks : {1, 2, 3})
      EXPECT_LT(golden_error(prompt, logits_of_file(file, ranks, prompt, Style::fused)),
                name == std::string("llama-gqa") ? 0.03 : 1e-4)  // rows of 80 and 216 stay f32
          << name << " " << ranks;
  }
}

// Rows of 48 and 72 fit no block and stay f32, so the logits are transformers' again: parts that share a tensor, heads
// that take turns, weights stored (in, out), norms less one and rotary positions all go there and back.
TEST(QuantiseModel, EveryFamilyComesBack) {
  const ScratchFolder folder;
  for (const char* name : {"qwen2", "gemma3", "phi3", "olmo2", "granite", "gpt2", "neox", "neox-serial"}) {
    const std::string file = folder.file(std::string(name) + ".gguf");
    quantise_model(golden_folder(name), file, {.type = Dtype::q8_0});
    const GoldenPrompt prompt = golden_prompts(golden_folder(name))[2];
    for (const int ranks : {1, 3})
      EXPECT_LT(golden_error(prompt, logits_of_file(file, ranks, prompt, Style::fused)),
                name == std::string("gemma3") ? 0.08 : 1e-4)  // whose output projection has rows of 64, in blocks
          << name << " " << ranks;
  }
}

TEST(QuantiseModel, WhatAFileCannotSayIsRefused) {
  const ScratchFolder folder;
  const auto said = [&](const char* name) {
    return refusal([&] { quantise_model(golden_folder(name), folder.file("x.gguf"), {}); });
  };
  EXPECT_NE(said("mistral-window").find("files of architecture llama cannot say the windows of this model"),
            std::string::npos);
  EXPECT_NE(said("qwen3").find("cannot say the windows"), std::string::npos);
  EXPECT_NE(said("gemma2").find("cannot say the scale of scores"), std::string::npos);
  EXPECT_NE(said("smollm3").find("cannot say the windows"), std::string::npos);
  EXPECT_NE(refusal([&] {
              quantise_model(gguf_golden_file("qwen2"), folder.file("x.gguf"), {});
            }).find("this is a GGUF file already"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.file("x.gguf")));
}

}  // namespace
}  // namespace weft
