// The encoding of protocol buffers, as much as reading models and traces needs: fields in order, each a number, four or
// eight bytes, or a stretch of bytes. Nothing beyond the text's end is read, whatever the lengths in it say.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

struct ProtoField {
  std::uint32_t number = 0;
  int type = 0;             // 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
  std::uint64_t value = 0;  // of types 0, 1 and 5
  std::string_view bytes;   // of type 2

  // Each throws bad_input naming the field where its type is another.
  std::int64_t as_int(std::string_view where) const;
  bool as_bool(std::string_view where) const { return as_int(where) != 0; }
  float as_float(std::string_view where) const;
  std::string_view as_bytes(std::string_view where) const;
};

class ProtoReader {
 public:
  // `kind`: what the file should be, for messages.
  ProtoReader(std::string_view text, std::string_view where, std::string_view kind = "sentencepiece model")
      : rest_(text), where_(where), kind_(kind) {}

  bool next(ProtoField& field);  // false at the end; throws bad_input on a malformed field
  // Of a file of messages, each behind its length.
  bool next_message(std::string_view& message);

 private:
  std::uint64_t varint();
  std::string_view take(std::uint64_t bytes);

  std::string_view rest_;
  std::string_view where_, kind_;
};

}  // namespace weft
