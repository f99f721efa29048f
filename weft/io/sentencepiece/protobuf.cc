#include "weft/io/sentencepiece/protobuf.h"

#include "weft/base/error.h"

namespace weft {
namespace {

void check_type(const ProtoField& field, int type, std::string_view where) {
  if (field.type != type)
    bad_input("{}: field {} has wire type {} instead of {}; the file is damaged", where, field.number, field.type,
              type);
}

}  // namespace

std::int64_t ProtoField::as_int(std::string_view where) const {
  check_type(*this, 0, where);
  return static_cast<std::int64_t>(value);
}

float ProtoField::as_float(std::string_view where) const {
  check_type(*this, 5, where);
  return std::bit_cast<float>(static_cast<std::uint32_t>(value));
}

std::string_view ProtoField::as_bytes(std::string_view where) const {
  check_type(*this, 2, where);
  return bytes;
}

bool ProtoReader::next(ProtoField& field) {
  if (rest_.empty()) return false;
  const std::uint64_t tag = varint();
  field = {};
  field.type = static_cast<int>(tag & 7);
  field.number = static_cast<std::uint32_t>(tag >> 3);
  if (field.number == 0 || tag >> 32 != 0)
    bad_input("{}: a field of number {}; this is no {}", where_, tag >> 3, kind_);
  if (field.type == 0) {
    field.value = varint();
  } else if (field.type == 2) {
    field.bytes = take(varint());
  } else if (field.type == 1 || field.type == 5) {
    const std::string_view bytes = take(field.type == 1 ? 8 : 4);
    for (std::size_t i = bytes.size(); i-- > 0;) field.value = field.value << 8 | static_cast<unsigned char>(bytes[i]);
  } else {
    bad_input("{}: field {} has wire type {}; this is no {}", where_, field.number, field.type, kind_);
  }
  return true;
}

bool ProtoReader::next_message(std::string_view& message) {
  if (rest_.empty()) return false;
  message = take(varint());
  return true;
}

std::uint64_t ProtoReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  bad_input("{}: a number of more than 10 bytes; this is no {}", where_, kind_);
}

std::string_view ProtoReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size())
    bad_input("{}: a field of {} bytes where {} are left; the file is cut short", where_, bytes, rest_.size());
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

}  // namespace weft
