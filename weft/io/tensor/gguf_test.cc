#include "weft/io/tensor/gguf.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"
#include "weft/io/tensor/write_gguf.h"

namespace weft {
namespace {

constexpr const char* kGolden = WEFT_SOURCE "/tests/gguf/golden.gguf";

std::string gguf_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<float> widened_values(const StoredTensor& tensor) {
  std::vector<float> values(num(tensor.elements()));
  widen(tensor, 0, tensor.elements(), values.data());
  return values;
}

TEST(Gguf, SettingsOfEveryKindAreRead) {
  const GgufFile file = GgufFile::open(kGolden);
  EXPECT_EQ(file.get_text("general.architecture"), "llama");
  EXPECT_EQ(file.get_int("kinds.u8", 0, 255), 200);
  EXPECT_EQ(file.get_int("kinds.i8", -128, 0), -100);
  EXPECT_EQ(file.get_int("kinds.u16", 0, 65535), 60000);
  EXPECT_EQ(file.get_int("kinds.i16", -65535, 0), -30000);
  EXPECT_EQ(file.get_int("kinds.u32", 0, INT64_MAX), 4000000000);
  EXPECT_EQ(file.get_int("kinds.i32", INT64_MIN, 0), -2000000000);
  EXPECT_EQ(file.get_int("kinds.u64", 0, INT64_MAX), std::int64_t{1} << 40);
  EXPECT_EQ(file.get_int("kinds.i64", INT64_MIN, 0), -(std::int64_t{1} << 40));
  EXPECT_EQ(file.get_double("kinds.f32", 0, 1), 0.5);
  EXPECT_EQ(file.get_double("kinds.f64", 0, 1), 1e-300);
  EXPECT_EQ(file.get_double("kinds.i8", -128, 1), -100);
  EXPECT_TRUE(file.get_bool("kinds.bool", false));
  EXPECT_FALSE(file.get_bool("kinds.none", false));
  EXPECT_EQ(file.get_text("kinds.text"), "weft \xE2\x96\xA6");
  EXPECT_EQ(file.get_texts("kinds.texts"), (std::vector<std::string_view>{"", "a",
                                                                          "\xE2\x96\x81"
                                                                          "b"}));
  EXPECT_EQ(file.get_ints("kinds.ints"), (std::vector<std::int64_t>{3, -4, 5}));
  EXPECT_EQ(file.get_floats("kinds.floats"), (std::vector<float>{0.25f, -1.5f}));
  EXPECT_EQ(file.get_int("kinds.none", 0, 9, 7), 7);
}

TEST(Gguf, WrongSettingsAreRefusedNamingTheKey) {
  const GgufFile file = GgufFile::open(kGolden);
  const auto said = [&](const std::function<void()>& call) { return refusal(call).substr(file.path().size() + 2); };
  EXPECT_EQ(said([&] { file.get_int("none", 0, 9); }), "there is no setting \"none\"; it should be a whole number");
  EXPECT_EQ(said([&] { file.get_int("kinds.u8", 0, 9); }), "setting \"kinds.u8\" is 200; give 0 to 9");
  EXPECT_EQ(said([&] { file.get_int("kinds.f32", 0, 9); }),
            "setting \"kinds.f32\" is f32; it should be a whole number");
  EXPECT_EQ(said([&] { file.get_text("kinds.texts"); }),
            "setting \"kinds.texts\" is an array of text; it should be a text");
  EXPECT_EQ(said([&] { file.get_ints("kinds.floats"); }),
            "setting \"kinds.floats\" is an array of f32; it should be an array of whole numbers");
  EXPECT_EQ(said([&] { file.get_bool("kinds.u8", true); }), "setting \"kinds.u8\" is u8; it should be true or false");
}

// The values of llama.cpp's own package, bit for bit.
TEST(Gguf, DequantisedValuesAreThoseOfLlamaCpp) {
  const GgufFile file = GgufFile::open(kGolden);
  const TensorFile golden = TensorFile::open(WEFT_SOURCE "/tests/gguf/golden.safetensors");
  ASSERT_EQ(file.tensors().size(), 9u);
  for (const StoredTensor& tensor : file.tensors()) {
    const StoredTensor& wanted = golden.get(tensor.name);
    ASSERT_EQ(tensor.shape, wanted.shape) << tensor.name;
    const std::vector<float> values = widened_values(tensor);
    EXPECT_EQ(std::memcmp(values.data(), wanted.data, wanted.bytes), 0) << tensor.name;
    for (const auto& [first, count] : {std::pair<int, int>{5, 700}, {255, 2}, {288, 32}, {1535, 1}}) {
      std::vector<float> some(num(count));
      widen(tensor, first, count, some.data());
      EXPECT_EQ(std::memcmp(some.data(), values.data() + first, num(count) * 4), 0) << tensor.name << " " << first;
    }
  }
}

TEST(Gguf, QuantisedBytesAreThoseOfLlamaCpp) {
  const GgufFile file = GgufFile::open(kGolden);
  const std::vector<float> source =
      widened_values(TensorFile::open(WEFT_SOURCE "/tests/gguf/golden.safetensors").get("source"));
  for (const Dtype dtype : {Dtype::q8_0, Dtype::q4_0}) {
    const StoredTensor& wanted = file.get(to_string(dtype));
    std::vector<std::byte> bytes(wanted.bytes);
    quantise(dtype, std::ssize(source), source.data(), bytes.data());
    EXPECT_EQ(std::memcmp(bytes.data(), wanted.data, wanted.bytes), 0) << to_string(dtype);
  }
}

std::vector<std::byte> some_bytes(std::size_t count) { return std::vector<std::byte>(count, std::byte{17}); }

void write_small(const std::string& path) {
  const std::pair<std::string, GgufSetting> settings[] = {{"general.architecture", std::string("llama")},
                                                          {"a.count", std::uint32_t{7}},
                                                          {"a.rate", 0.5f},
                                                          {"a.yes", true},
                                                          {"a.texts", std::vector<std::string>{"x", "yy"}},
                                                          {"a.scores", std::vector<float>{1, 2}},
                                                          {"a.kinds", std::vector<std::int32_t>{-1, 2}}};
  const GgufTensor tensors[] = {{"w", StoredDtype::q4_k, {2, 256}, [] { return some_bytes(288); }},
                                {"b", StoredDtype::f32, {3}, [] { return some_bytes(12); }},
                                {"q", StoredDtype::q8_0, {2, 2, 32}, [] { return some_bytes(136); }}};
  write_gguf(path, settings, tensors);
}

TEST(Gguf, WhatIsWrittenIsReadBack) {
  const ScratchFolder folder;
  write_small(folder.file("x.gguf"));
  const GgufFile file = GgufFile::open(folder.file("x.gguf"));
  EXPECT_EQ(file.get_int("a.count", 0, 10), 7);
  EXPECT_EQ(file.get_double("a.rate", 0, 1), 0.5);
  EXPECT_TRUE(file.get_bool("a.yes", false));
  EXPECT_EQ(file.get_texts("a.texts"), (std::vector<std::string_view>{"x", "yy"}));
  EXPECT_EQ(file.get_floats("a.scores"), (std::vector<float>{1, 2}));
  EXPECT_EQ(file.get_ints("a.kinds"), (std::vector<std::int64_t>{-1, 2}));
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.get("q").shape, (std::vector<std::int64_t>{2, 2, 32}));
  EXPECT_EQ(file.get("w").elements(), 512);
  EXPECT_EQ(file.find("none"), nullptr);
  for (const StoredTensor& tensor : file.tensors())
    for (std::size_t i = 0; i < tensor.bytes; ++i) ASSERT_EQ(tensor.data[i], std::byte{17});
}

TEST(Gguf, TheWriterRefusesWhatItCouldNotReadBack) {
  const ScratchFolder folder;
  const std::string path = folder.file("x.gguf");
  const auto writing = [&](std::vector<GgufTensor> tensors) { return refusal([&] { write_gguf(path, {}, tensors); }); };
  EXPECT_EQ(writing({{"w", StoredDtype::q4_k, {2, 128}, [] { return some_bytes(144); }}}),
            path + ": tensor \"w\" has a shape that a GGUF file cannot hold as q4_k; rows are multiples of 256");
  EXPECT_EQ(writing({{"w", StoredDtype::f32, {2}, [] { return some_bytes(9); }}}),
            path + ": tensor \"w\" has 9 bytes, its shape 8; give both alike");
  const GgufTensor one{"w", StoredDtype::f32, {2}, [] { return some_bytes(8); }};
  EXPECT_EQ(writing({one, one}), path + ": tensor \"w\" is given twice");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A file by hand: settings and entries as raw bytes.
struct Raw {
  std::string bytes = "GGUF";
  template <typename T>
  Raw& add(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Raw& text(const std::string& words) {
    add<std::uint64_t>(words.size());
    bytes += words;
    return *this;
  }
  Raw& begin(std::uint64_t tensors, std::uint64_t settings, std::uint32_t version = 3) {
    return add<std::uint32_t>(version).add<std::uint64_t>(tensors).add<std::uint64_t>(settings);
  }
  Raw& entry(const std::string& name, std::vector<std::uint64_t> extents, std::uint32_t type, std::uint64_t offset) {
    text(name).add<std::uint32_t>(static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) add<std::uint64_t>(extent);
    return add<std::uint32_t>(type).add<std::uint64_t>(offset);
  }
  std::string with_data(std::size_t count) const {
    std::string all = bytes;
    all.resize((all.size() + 31) / 32 * 32 + count);
    return all;
  }
};

std::string gguf_said(const std::string& bytes) {
  const ScratchFolder folder;
  const std::string path = folder.write("x.gguf", bytes);
  const std::string message = refusal([&] { GgufFile::open(path); });
  return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : "(no path) " + message;
}

TEST(Gguf, WrongHeadersAreRefused) {
  EXPECT_EQ(gguf_said("GG"), "the magic needs 4 bytes at byte 0, but 2 are left; the file is cut short or damaged");
  EXPECT_EQ(gguf_said("PK\3\4 and so on"), "it does not begin with GGUF; give a GGUF file, or a model's folder");
  EXPECT_EQ(gguf_said(Raw().begin(0, 0, 1).bytes),
            "GGUF version 1; versions 2 and 3 are read: convert the model again");
  EXPECT_EQ(gguf_said(Raw().begin(0, 0, 0x03000000).bytes),
            "the file is big-endian, which is not read; convert it on this machine");
  EXPECT_EQ(gguf_said(Raw().begin(0, UINT64_MAX).bytes),
            "18446744073709551615 settings in a file of 24 bytes; it is cut short or damaged");
  EXPECT_EQ(gguf_said(Raw().begin(1000, 0).bytes), "1000 tensors in a file of 24 bytes; it is cut short or damaged");
}

TEST(Gguf, WrongSettingsInTheFileAreRefused) {
  const auto one = [](Raw raw) { return gguf_said(raw.with_data(64)); };
  EXPECT_EQ(one(Raw().begin(0, 1).add<std::uint64_t>(UINT64_MAX)),
            "the key of a setting is a text of 18446744073709551615 bytes; at most 67108864 are read");
  EXPECT_EQ(one(Raw().begin(0, 1).text("k").add<std::uint32_t>(13)), "setting \"k\" is of kind 13; kinds are 0 to 12");
  EXPECT_EQ(one(Raw().begin(0, 1).text("k").add<std::uint32_t>(9).add<std::uint32_t>(9).add<std::uint64_t>(1)),
            "setting \"k\" is an array of arrays, which is not read; leave it out");
  EXPECT_EQ(one(Raw().begin(0, 1).text("k").add<std::uint32_t>(9).add<std::uint32_t>(8).add<std::uint64_t>(1u << 30))
                .find("1073741824 items in setting \"k\" in a file of"),
            0u);
  EXPECT_EQ(one(Raw().begin(0, 2).text("k").add<std::uint32_t>(0).add('x').text("k").add<std::uint32_t>(0).add('x')),
            "setting \"k\" is there twice; leave one of them");
  EXPECT_EQ(one(Raw().begin(0, 1).text("general.alignment").add<std::uint32_t>(4).add<std::uint32_t>(48)),
            "\"general.alignment\" is 48; give a power of two of 8 to 1048576");
  EXPECT_EQ(one(Raw().begin(0, 1).text("").add<std::uint32_t>(0).add('x')), "a setting has a key of 0 bytes");
}

TEST(Gguf, WrongTensorsAreRefused) {
  const auto one = [](Raw raw, std::size_t data = 64) { return gguf_said(raw.with_data(data)); };
  EXPECT_EQ(one(Raw().begin(1, 0).entry("w", {4}, 0, 128)),
            "tensor \"w\" begins at 128, but there are 64 bytes of tensors; the file is cut short");
  EXPECT_EQ(one(Raw().begin(1, 0).entry("w", {17}, 0, 0)),
            "tensor \"w\" of 68 bytes begins at 0, but there are 64 bytes of tensors; the file is cut short");
  EXPECT_EQ(one(Raw().begin(1, 0).entry("w", {4}, 0, 4)),
            "tensor \"w\" begins at 4, no multiple of the alignment of 32; the file is damaged");
  EXPECT_EQ(one(Raw().begin(1, 0).entry("w", {31}, 8, 0)),
            "tensor \"w\" has rows of 31 values, no whole number of Q8_0 blocks of 32; the file is damaged");
  EXPECT_EQ(one(Raw().begin(1, 0).entry("w", {1, 1, 1, 1, 1}, 0, 0)), "tensor \"w\" has 5 extents; at most 4 are read");
  EXPECT_EQ(one(Raw().begin(1, 0).entry("w", {UINT64_MAX}, 0, 0)),
            "tensor \"w\" has an extent of 18446744073709551615; the file is damaged");
  EXPECT_EQ(one(Raw().begin(1, 0).entry("w", {1u << 31, 1u << 31, 1u << 31}, 0, 0)),
            "tensor \"w\" has more values than 64 bits can count; the file is damaged");
  EXPECT_EQ(one(Raw().begin(2, 0).entry("w", {4}, 0, 0).entry("w", {4}, 0, 32)), "tensor \"w\" is there twice");
  EXPECT_EQ(one(Raw().begin(2, 0).entry("v", {16}, 0, 0).entry("w", {4}, 0, 32)),
            "tensors \"v\" and \"w\" overlap at byte 32; the file is damaged");
}

TEST(Gguf, OtherTypesAreRefusedOnlyWhereAskedFor) {
  const ScratchFolder folder;
  const std::string path = folder.write(
      "x.gguf",
      Raw().begin(3, 0).entry("a", {4}, 0, 0).entry("b", {256}, 10, 32).entry("c", {4}, 99, 32).with_data(64));
  const GgufFile file = GgufFile::open(path);
  EXPECT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(refusal([&] { file.get("b"); }),
            path + ": tensor \"b\" is of type Q2_K; store it as F32, F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K");
  EXPECT_NE(refusal([&] { file.get("c"); }).find("is of type number 99"), std::string::npos);
  EXPECT_EQ(refusal([&] { file.get("d"); }), path + ": there is no tensor \"d\" among its 1; is this a whole model?");
}

TEST(Gguf, MutantsAreTakenOrRefused) {
  const ScratchFolder folder;
  write_small(folder.file("x.gguf"));
  const std::string original = gguf_bytes(folder.file("x.gguf"));
  const FuzzCounts counts = fuzz(original, 4000, [&](const std::string& mutant) {
    const GgufFile file = GgufFile::open(folder.write("x.gguf", mutant));
    for (const StoredTensor& tensor : file.tensors()) widened_values(tensor);
    for (const auto& [key, value] : file.values()) {
      if (value.is_array && value.kind == GgufKind::f32) file.get_floats(key);
      if (value.is_array && value.kind == GgufKind::text) file.get_texts(key);
    }
  });
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 1000);
}

}  // namespace
}  // namespace weft
