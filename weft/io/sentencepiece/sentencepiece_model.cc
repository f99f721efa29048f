#include "weft/io/sentencepiece/sentencepiece_model.h"

#include <array>
#include <cmath>
#include <unordered_set>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/sentencepiece/protobuf.h"
#include "weft/io/text/piece_bpe.h"

namespace weft {
namespace {

constexpr std::size_t kMostPieces = std::size_t{1} << 22;

struct TrainerIds {
  std::int64_t bos = 1, eos = 2;
};

SentencePiece read_piece(std::string_view text, std::size_t id, const std::string& path) {
  const std::string where = fmt::format("{}: piece {}", path, id);
  SentencePiece piece;
  ProtoReader reader(text, where);
  for (ProtoField field; reader.next(field);) {
    if (field.number == 1) piece.text = field.as_bytes(where);
    if (field.number == 2) piece.score = field.as_float(where);
    if (field.number == 3) {
      const std::int64_t type = field.as_int(where);
      if (type < 1 || type > 6) bad_input("{}: \"type\" is {}; 1 to 6 are known", where, type);
      piece.type = static_cast<PieceType>(type);
    }
  }
  if (piece.text.empty()) bad_input("{}: \"piece\" is empty; the file is damaged", where);
  if (!std::isfinite(piece.score)) bad_input("{}: \"score\" is no finite number; the file is damaged", where);
  if (piece.type == PieceType::byte && !byte_of_piece(piece.text))
    bad_input("{}: {} is of type BYTE but not like <0x0A>", where, weft::quoted(piece.text));
  return piece;
}

TrainerIds read_trainer(std::string_view text, const std::string& where, SentencePieceModel& model) {
  TrainerIds ids;
  ProtoReader reader(text, where);
  for (ProtoField field; reader.next(field);) {
    switch (field.number) {
      case 3:
        if (const std::int64_t kind = field.as_int(where); kind != 1 && kind != 2)
          bad_input("{}: \"model_type\" is {}; 1 (unigram) and 2 (BPE) are read", where, kind);
        model.kind = static_cast<SentencePieceModel::Kind>(field.as_int(where));
        break;
      case 24:
        if (field.as_bool(where))
          bad_input("{}: \"treat_whitespace_as_suffix\" is true, which is not done here", where);
        break;
      case 35:
        model.byte_fallback = field.as_bool(where);
        break;
      case 41:
        ids.bos = static_cast<std::int32_t>(field.as_int(where));
        break;
      case 42:
        ids.eos = static_cast<std::int32_t>(field.as_int(where));
        break;
      case 44:
        model.unknown_text = field.as_bytes(where);
        break;
    }
  }
  return ids;
}

void read_normalizer(std::string_view text, const std::string& where, SentencePieceModel& model) {
  ProtoReader reader(text, where);
  for (ProtoField field; reader.next(field);) {
    if (field.number == 2) model.charsmap = Charsmap(field.as_bytes(where), where);
    if (field.number == 3) model.add_dummy_prefix = field.as_bool(where);
    if (field.number == 4) model.remove_extra_whitespaces = field.as_bool(where);
    if (field.number == 5) model.escape_whitespaces = field.as_bool(where);
  }
}

void check_denormalizer(std::string_view text, const std::string& where) {
  ProtoReader reader(text, where);
  for (ProtoField field; reader.next(field);)
    if (field.number == 2 && !field.as_bytes(where).empty())
      bad_input("{}: a \"precompiled_charsmap\" for decoding is not done here", where);
}

void check_pieces(SentencePieceModel& model, const std::string& path) {
  std::unordered_set<std::string_view> seen;
  std::array<bool, 256> bytes{};
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (!seen.insert(piece.text).second)
      bad_input("{}: piece {} ({}) is there twice; the file is damaged", path, id, weft::quoted(piece.text));
    if (piece.type == PieceType::byte) bytes[*byte_of_piece(piece.text)] = true;
    if (piece.type != PieceType::unknown) continue;
    if (model.unknown >= 0) bad_input("{}: pieces {} and {} are both of type UNKNOWN", path, model.unknown, id);
    model.unknown = static_cast<int>(id);
  }
  if (model.unknown < 0)
    bad_input("{}: no piece of type UNKNOWN among {}; the file is damaged", path, model.pieces.size());
  for (int byte = 0; byte < 256 && model.byte_fallback; ++byte)
    if (!bytes[at(byte)])
      bad_input("{}: \"byte_fallback\" is true, but there is no piece <0x{:02X}> of type BYTE", path, byte);
}

std::string control_text(const SentencePieceModel& model, std::int64_t id) {
  if (id < 0 || id >= std::ssize(model.pieces)) return "";
  const SentencePiece& piece = model.pieces[at(id)];
  return piece.type == PieceType::control ? piece.text : "";
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::string_view file, const std::string& path) {
  SentencePieceModel model;
  TrainerIds ids;
  ProtoReader reader(file, path);
  for (ProtoField field; reader.next(field);) {
    if (field.number == 1) model.pieces.push_back(read_piece(field.as_bytes(path), model.pieces.size(), path));
    if (field.number == 2) ids = read_trainer(field.as_bytes(path), path + ": \"trainer_spec\"", model);
    if (field.number == 3) read_normalizer(field.as_bytes(path), path + ": \"normalizer_spec\"", model);
    if (field.number == 5) check_denormalizer(field.as_bytes(path), path + ": \"denormalizer_spec\"");
    if (model.pieces.size() > kMostPieces) bad_input("{}: more than {} pieces", path, kMostPieces);
  }
  check_pieces(model, path);
  model.bos = control_text(model, ids.bos);
  model.eos = control_text(model, ids.eos);
  return model;
}

}  // namespace weft
