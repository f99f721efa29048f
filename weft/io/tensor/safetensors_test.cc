#include "weft/io/tensor/safetensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"
#include "weft/io/scratch_folder_test.h"

namespace weft {
namespace {

std::string with_length(const std::string& header, const std::string& data = {}) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}";
}

template <typename T>
StoredTensor view(const std::string& name, StoredDtype dtype, std::vector<std::int64_t> shape,
                  const std::vector<T>& values) {
  return {name, dtype, std::move(shape), reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

// What opening a file of these bytes says after its path.
std::string said(const std::string& bytes) {
  const ScratchFolder folder;
  const std::string path = folder.write("x.safetensors", bytes);
  const std::string message = refusal([&] { TensorFile::open(path); });
  return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : "(no path) " + message;
}

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const ScratchFolder folder;
  const std::vector<float> wide = {1, -2, 3.5f, 0, 1e-40f, 6};
  const std::vector<std::uint16_t> narrow = {0x3f80, 0xc000, 0x7f80};
  const StoredTensor tensors[] = {
      view("b", StoredDtype::bf16, {3}, narrow), view("a.w", StoredDtype::f32, {2, 3}, wide),
      view("a\"é", StoredDtype::f16, {3, 1}, narrow), view("none", StoredDtype::f32, {0, 7}, std::vector<float>{})};
  write_safetensors(folder.file("x.safetensors"), tensors, {{"format", "pt"}, {"made by", "test"}});
  const TensorFile file = TensorFile::open(folder.file("x.safetensors"));
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata().at("made by"), "test");
  for (const StoredTensor& written : tensors) {
    const StoredTensor& read = file.get(written.name);
    EXPECT_EQ(read.dtype, written.dtype);
    EXPECT_EQ(read.shape, written.shape);
    ASSERT_EQ(read.bytes, written.bytes);
    EXPECT_TRUE(read.bytes == 0 || std::memcmp(read.data, written.data, read.bytes) == 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data) % size_of(read.dtype), 0u) << "aligned";
  }
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(refusal([&] { file.get("c"); }),
            folder.file("x.safetensors") +
                ": there is no tensor \"c\" among its 4; is this the model that its config.json says?");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "nothing is left aside";
}

TEST(Safetensors, TheBundledModelOpens) {
  const TensorFolder model = TensorFolder::open(WEFT_SOURCE "/models/weft-16");
  EXPECT_EQ(model.tensors().size(), 16u * 9 + 2);
  std::size_t bytes = 0;
  for (const StoredTensor& tensor : model.tensors()) bytes += tensor.bytes;
  EXPECT_EQ(bytes, 31474176u);  // total_size of its index
  const StoredTensor& embedding = model.get("model.embed_tokens.weight");
  EXPECT_EQ(embedding.shape, (std::vector<std::int64_t>{8192, 256}));
  std::vector<float> row(256);
  widen(embedding, 8191 * 256, 256, row.data());
  for (const float value : row) EXPECT_TRUE(std::isfinite(value) && std::abs(value) < 10);
  EXPECT_EQ(
      TensorFolder::open(WEFT_SOURCE "/tests/models/opt-bias").get("model.decoder.embed_positions.weight").shape[1],
      64);
}

TEST(Safetensors, WrongHeadersAreRefusedNamingTheField) {
  EXPECT_EQ(said("abc"), "3 bytes, too short for a safetensors header; fetch the file again");
  EXPECT_EQ(said(""), "0 bytes, too short for a safetensors header; fetch the file again");
  EXPECT_EQ(said(std::string("\x09\0\0\0\0\0\0\0{}", 10)),
            "header length 9 is more than the 2 bytes after it; the file is cut short or is no safetensors file");
  EXPECT_EQ(said(std::string(8, '\xff') + "{}"),
            "header length 18446744073709551615 is more than the 2 bytes after it; the file is cut short or is no "
            "safetensors file");
  EXPECT_EQ(said(with_length("[1]")), "the header is no JSON object; this is no safetensors file");
  EXPECT_EQ(said(with_length("{\"a\":")).find("not JSON at line 1"), 0u);
  EXPECT_NE(said(with_length(std::string(1000, '['))).find("nested more than 8 deep"), std::string::npos);
  EXPECT_EQ(said(with_length(R"({"a":7})")), "tensor \"a\": 7 stands where an object {...} with \"dtype\" should");
  EXPECT_EQ(said(with_length(R"({"__metadata__":{"x":1}})")), "\"__metadata__\": \"x\" is 1; give a string");
  EXPECT_EQ(said(with_length(R"({"__metadata__":3})")), "\"__metadata__\" is no object; give names with strings");
}

TEST(Safetensors, WrongTensorsAreRefusedNamingTheField) {
  const std::string data(16, 'x');
  const auto one = [&](const std::string& text) { return said(with_length("{" + text + "}", data)); };
  EXPECT_EQ(one(entry("a", "F32", "5", "0,20")),
            "tensor \"a\": \"data_offsets\" ends at 20, but 16 bytes follow the header; the file is cut short");
  EXPECT_EQ(one(entry("a", "F32", "2", "8,0")), "tensor \"a\": \"data_offsets\" ends at 0, before its begin 8");
  EXPECT_EQ(one(entry("a", "F32", "3", "0,16")),
            "tensor \"a\": \"shape\" of F32 is 12 bytes, \"data_offsets\" are 16; the header is damaged");
  EXPECT_EQ(one(entry("a", "F32", "-4", "0,16")),
            "tensor \"a\": item 0 of \"shape\" is -4; give a whole number of at least 0");
  EXPECT_EQ(one(entry("a", "F32", "4611686018427387904,4", "0,16")),
            "tensor \"a\": \"shape\" is more bytes than 64 bits can count; the header is damaged");
  EXPECT_EQ(one(entry("a", "F32", "1e3", "0,16")),
            "tensor \"a\": item 0 of \"shape\" is 1000.0; give a whole number of at least 0");
  EXPECT_EQ(one(entry("a", "F32", "4", "0,16,16")), "tensor \"a\": \"data_offsets\" has 3 numbers; give 2");
  EXPECT_EQ(one(entry("a", "F32", "4", "-1,15")),
            "tensor \"a\": item 0 of \"data_offsets\" is -1; give a whole number of at least 0");
  EXPECT_EQ(one(entry("a", "F32", "2", "0,8") + "," + entry("b", "F16", "4", "6,14")),
            "\"data_offsets\" of \"a\" and \"b\" overlap at byte 6; the header is damaged");
  EXPECT_EQ(one(entry("a", "F32", "2", "0,8") + "," + entry("a", "F32", "2", "8,16")),
            "\"a\" is there twice; leave one of them");
  EXPECT_EQ(one(R"("a":{"dtype":"F32","shape":[4]})"),
            "tensor \"a\": \"data_offsets\" is missing; give an array [...]");
}

TEST(Safetensors, OtherTypesAreRefusedOnlyWhereAskedFor) {
  const ScratchFolder folder;
  const std::string path = folder.write(
      "model.safetensors", with_length("{" + entry("ids", "I64", "1", "0,8") + "," + entry("new", "F4", "9", "8,12") +
                                           "," + entry("w", "F32", "1", "12,16") + "}",
                                       std::string(16, '\0')));
  const TensorFolder model = TensorFolder::open(folder.path());
  EXPECT_EQ(model.tensors().size(), 1u);
  EXPECT_EQ(refusal([&] { model.get("ids"); }),
            folder.path() + ": tensor \"ids\" is of type I64; store it as F32, F16 or BF16");
  EXPECT_EQ(refusal([&] { TensorFile::open(path).find("new"); }),
            path + ": tensor \"new\" is of type F4; store it as F32, F16 or BF16");
}

class FolderIndex : public ::testing::Test {
 protected:
  std::string said(const std::string& index) {
    const std::string path = folder_.write("model.safetensors.index.json", index);
    const std::string message = refusal([&] { TensorFolder::open(folder_.path()); });
    return message.rfind(path + ": ", 0) == 0 ? message.substr(path.size() + 2) : "(no path) " + message;
  }
  ScratchFolder folder_;
};

TEST_F(FolderIndex, WrongIndexesAreRefusedNamingTheFile) {
  folder_.write("a.safetensors", with_length("{" + entry("w", "F32", "1", "0,4") + "}", "abcd"));
  EXPECT_EQ(said(R"({"weight_map":{"w":"../a.safetensors"}})"),
            "\"weight_map\" puts tensor \"w\" in \"../a.safetensors\", which is no plain file name; files lie beside "
            "their index");
  EXPECT_EQ(
      said(R"({"weight_map":{"w":"/etc/passwd"}})"),
      "\"weight_map\" puts tensor \"w\" in \"/etc/passwd\", which is no plain file name; files lie beside their index");
  EXPECT_EQ(said(R"({"weight_map":{"w":".."}})").find("\"weight_map\" puts tensor \"w\" in \"..\", which is no plain"),
            0u);
  EXPECT_EQ(said(R"({"weight_map":{"w":"a.safetensors\u0000b"}})").find("\"weight_map\" puts tensor \"w\" in"), 0u);
  EXPECT_EQ(said(R"({"weight_map":{"w":"b.safetensors"}})"),
            "\"weight_map\" puts tensor \"w\" in \"b.safetensors\", which is not in the folder; fetch it");
  EXPECT_EQ(said(R"({"weight_map":{"v":"a.safetensors"}})"),
            "\"weight_map\" puts tensor \"v\" in \"a.safetensors\", which has none");
  EXPECT_EQ(said(R"({"weight_map":{"w":3}})"), "\"weight_map\": \"w\" is 3; give a string");
  EXPECT_EQ(said(R"({"weight_map":[]})"), "\"weight_map\" is []; give an object {...}");
  EXPECT_EQ(said("[]"), "[] stands where an object {...} with \"weight_map\" should");
  EXPECT_EQ(said(R"({"weight_map":{"w":"a.safetensors","w":"b.safetensors"}})"),
            "\"w\" is there twice; leave one of them");
  folder_.write("model.safetensors.index.json", R"({"weight_map":{"w":"a.safetensors"}})");
  EXPECT_EQ(TensorFolder::open(folder_.path()).get("w").bytes, 4u);
}

TEST(Safetensors, FoldersWithoutWeightsAreRefused) {
  const ScratchFolder folder;
  EXPECT_EQ(refusal([&] { TensorFolder::open(folder.path()); }),
            folder.path() +
                ": there is neither model.safetensors nor model.safetensors.index.json; give a folder with weights in "
                "safetensors form");
  EXPECT_EQ(refusal([&] { TensorFolder::open("/nonexistent"); }),
            "\"/nonexistent\" is no folder; give a model's folder");
  std::filesystem::create_directory(folder.file("model.safetensors"));
  EXPECT_EQ(refusal([&] { TensorFolder::open(folder.path()); }),
            "\"" + folder.file("model.safetensors") + "\" is not a plain file; give the path of a file");
}

TEST(Safetensors, TheWriterRefusesWhatItCouldNotReadBack) {
  const ScratchFolder folder;
  const std::vector<float> four(4);
  const std::string path = folder.file("x.safetensors");
  const auto writing = [&](std::vector<StoredTensor> tensors) {
    return refusal([&] { write_safetensors(path, tensors); });
  };
  EXPECT_EQ(writing({view("a", StoredDtype::f32, {5}, four)}),
            path + ": tensor \"a\" has 16 bytes, its shape 20; give both alike");
  EXPECT_EQ(writing({view("a", StoredDtype::f32, {4}, four), view("a", StoredDtype::f32, {2, 2}, four)}),
            path + ": tensor \"a\" is given twice");
  EXPECT_NE(writing({view("__metadata__", StoredDtype::f32, {4}, four)}).find("\"__metadata__\""), std::string::npos);
  EXPECT_NE(writing({view("\xff", StoredDtype::f32, {4}, four)}).find("not UTF-8"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(refusal([&] { write_safetensors("/nonexistent/x", {}); }).find("cannot write \"/nonexistent/x\": "), 0u);
}

// Every half against a twin that goes by the format's definition.
TEST(Widen, EveryHalfAndEveryBf16IsExact) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> half(65536), brain(65536);
  widen(view("h", StoredDtype::f16, {65536}, all), 0, 65536, half.data());
  widen(view("b", StoredDtype::bf16, {65536}, all), 0, 65536, brain.data());
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const int exponent = i >> 10 & 31, fraction = i & 1023;
    float wanted = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                 : std::ldexp(1024.0f + static_cast<float>(fraction), exponent - 25);
    if (exponent == 31)
      wanted = fraction ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    if (i >> 15) wanted = -wanted;
    if (exponent == 31 && fraction) {
      ASSERT_TRUE(std::isnan(half[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(half[i]), std::bit_cast<std::uint32_t>(wanted)) << i;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(brain[i]),
              std::bit_cast<std::uint32_t>(to_float(bf16{static_cast<std::uint16_t>(i)})));
  }
}

TEST(Widen, OnlyWhatIsThere) {
  const std::vector<float> four = {1, 2, 3, 4};
  const StoredTensor tensor = view("a", StoredDtype::f32, {2, 2}, four);
  float out[4] = {};
  widen(tensor, 1, 2, out);
  EXPECT_EQ(out[1], 3);
  widen(tensor, 4, 0, out);
  EXPECT_EQ(refusal([&] { widen(tensor, 3, 2, out); }),
            "tensor \"a\" has 4 elements; 2 from element 3 on are not in it");
  EXPECT_NE(refusal([&] { widen(tensor, -1, 2, out); }), "did not throw");
  EXPECT_NE(refusal([&] { widen(tensor, 1, INT64_MAX, out); }), "did not throw");
}

TEST(Safetensors, MutantsAreTakenOrRefused) {
  const ScratchFolder folder;
  const std::vector<float> wide(12, 1.5f);
  const std::vector<std::uint16_t> narrow(6, 0x3f80);
  const StoredTensor tensors[] = {view("layers.0.w", StoredDtype::f32, {3, 4}, wide),
                                  view("layers.0.b", StoredDtype::bf16, {6}, narrow),
                                  view("head", StoredDtype::f16, {2, 3}, narrow)};
  write_safetensors(folder.file("x"), tensors, {{"format", "pt"}});
  std::ifstream stream(folder.file("x"), std::ios::binary);
  const std::string original(std::istreambuf_iterator<char>(stream), {});
  const FuzzCounts counts = fuzz(original, 4000, [&](const std::string& mutant) {
    const TensorFile file = TensorFile::open(folder.write("x", mutant));
    for (const StoredTensor& tensor : file.tensors()) {
      std::vector<float> values(num(tensor.elements()));
      widen(tensor, 0, tensor.elements(), values.data());
    }
  });
  EXPECT_GT(counts.taken, 100);
  EXPECT_GT(counts.refused, 2000);
}

TEST_F(FolderIndex, MutantsAreTakenOrRefused) {
  folder_.write("a.safetensors", with_length("{" + entry("w", "F32", "1", "0,4") + "}", "abcd"));
  folder_.write("b.safetensors", with_length("{" + entry("v", "F32", "1", "0,4") + "}", "abcd"));
  const std::string index = R"({"metadata":{"total_size":8},"weight_map":{"v":"b.safetensors","w":"a.safetensors"}})";
  const FuzzCounts counts = fuzz(index, 2000, [&](const std::string& mutant) {
    folder_.write("model.safetensors.index.json", mutant);
    TensorFolder::open(folder_.path());
  });
  EXPECT_GT(counts.taken, 50);
  EXPECT_GT(counts.refused, 1000);
}

}  // namespace
}  // namespace weft
