// Fields of every type, and lengths that lie.
#include "weft/io/sentencepiece/protobuf.h"

#include <cstring>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/fuzz_test.h"

namespace weft {
namespace {

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}
std::string tag(std::uint32_t number, int type) {
  return varint(std::uint64_t{number} << 3 | static_cast<unsigned>(type));
}

ProtoField only_field(const std::string& text) {
  ProtoReader reader(text, "f");
  ProtoField field, more;
  EXPECT_TRUE(reader.next(field));
  EXPECT_FALSE(reader.next(more));
  return field;
}

std::string said(const std::string& text) {
  return refusal([&] {
    ProtoReader reader(text, "f");
    for (ProtoField field; reader.next(field);) {
    }
  });
}

TEST(Protobuf, EveryTypeIsRead) {
  EXPECT_EQ(only_field(tag(3, 0) + varint(300)).as_int("f"), 300);
  EXPECT_EQ(only_field(tag(3, 0) + varint(~std::uint64_t{0})).as_int("f"), -1);
  EXPECT_TRUE(only_field(tag(1, 0) + varint(1)).as_bool("f"));
  const float value = -2.5f;
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  EXPECT_EQ(only_field(tag(2, 5) + bytes).as_float("f"), -2.5f);
  const std::string message = tag(100, 2) + varint(5) + "hello";  // a field's bytes lie in its message
  const ProtoField text = only_field(message);
  EXPECT_EQ(text.number, 100u);
  EXPECT_EQ(text.as_bytes("f"), "hello");
  EXPECT_EQ(only_field(tag(1, 1) + "12345678").type, 1);
}

TEST(Protobuf, FieldsComeInOrder) {
  const std::string message = tag(1, 0) + varint(7) + tag(2, 2) + varint(0) + tag(1, 0) + varint(8);
  ProtoReader reader(message, "f");
  ProtoField field;
  std::vector<std::uint64_t> numbers;
  while (reader.next(field)) numbers.push_back(field.number);
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, 2, 1}));
}

TEST(Protobuf, AnotherTypeThanAskedForIsNamed) {
  const ProtoField number = only_field(tag(9, 0) + varint(1));
  EXPECT_NE(refusal([&] { number.as_bytes("f"); }).find("field 9 has wire type 0 instead of 2"), std::string::npos);
  EXPECT_NE(refusal([&] { number.as_float("f"); }).find("instead of 5"), std::string::npos);
}

TEST(Protobuf, NothingIsReadBeyondTheEnd) {
  EXPECT_NE(said(tag(1, 2) + varint(~std::uint64_t{0})), "did not throw") << "a length of 2^64 - 1";
  EXPECT_NE(said(tag(1, 2) + varint(6) + "hello"), "did not throw");
  EXPECT_NE(said(tag(1, 1) + "1234567"), "did not throw");
  EXPECT_NE(said(tag(1, 5) + "123"), "did not throw");
  EXPECT_NE(said(tag(1, 0)), "did not throw");
  EXPECT_NE(said(std::string(11, '\xff')), "did not throw") << "a varint without an end";
  EXPECT_EQ(said(""), "did not throw");
}

TEST(Protobuf, MutantsAreTakenOrRefused) {
  const std::string message = tag(1, 0) + varint(70000) + tag(2, 2) + varint(5) + "hello" + tag(3, 5) + "abcd" +
                              tag(4, 1) + "12345678" + tag(5, 2) + varint(0);
  const FuzzCounts counts = fuzz(message, 4000, [](const std::string& mutant) {
    ProtoReader reader(mutant, "f");
    for (ProtoField field; reader.next(field);) field.as_int("f");
  });
  EXPECT_GT(counts.refused, 1000);
}

}  // namespace
}  // namespace weft
