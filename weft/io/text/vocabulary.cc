#include "weft/io/text/vocabulary.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

std::optional<int> Vocabulary::find(const std::string& text) const {
  const auto found = ids.find(text);
  return found == ids.end() ? std::nullopt : std::optional<int>(found->second);
}

void Vocabulary::add(const std::string& text, int id) {
  if (num(id) >= texts.size()) texts.resize(num(id) + 1);
  texts[at(id)] = text;
  ids[text] = id;
}

int largest_id(std::size_t count) {
  return static_cast<int>(std::min<std::size_t>(4 * count + 65536, std::size_t{1} << 24));
}

Vocabulary read_vocabulary(const Json& object, std::string_view where) {
  if (!object.is_object() || object.empty()) bad_input("{}: the vocabulary is no object with tokens", where);
  Vocabulary result;
  result.ids.reserve(object.size());
  std::vector<bool> taken;
  const int most = largest_id(object.size());
  for (const auto& [text, value] : object.items()) {
    const int id = get_small(object, text, where, 0, most);
    const auto place = num(id);
    if (place >= taken.size()) taken.resize(place + 1, false);
    if (taken[place])
      bad_input("{}: {} and {} both have id {}; the file is damaged", where, weft::quoted(result.texts[place]),
                weft::quoted(text), id);
    taken[place] = true;
    result.add(text, id);
  }
  return result;
}

void add_merge(const std::string& left, const std::string& right, std::size_t number, const Vocabulary& vocabulary,
               std::string_view where, Merges& merges) {
  const auto id_of = [&](const std::string& text) {
    const std::optional<int> id = vocabulary.find(text);
    if (!id)
      bad_input("{}: merge {} ({} {}) needs the token {}, which the vocabulary has not", where, number,
                weft::quoted(left), weft::quoted(right), weft::quoted(text));
    return *id;
  };
  const int left_id = id_of(left), right_id = id_of(right);
  merges.add(left_id, right_id, id_of(left + right));
}

Merges read_merges(const Json& array, const Vocabulary& vocabulary, std::string_view where) {
  Merges merges;
  merges.reserve(array.size());
  std::size_t number = 0;
  for (const Json& merge : array) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      add_merge(merge[0].get<std::string>(), merge[1].get<std::string>(), number, vocabulary, where, merges);
    } else if (const std::string text = merge.is_string() ? merge.get<std::string>() : ""; true) {
      const std::size_t space = text.find(' ');
      if (space == std::string::npos)
        bad_input("{}: item {} of \"merges\" is neither \"a b\" nor [\"a\", \"b\"]; the file is damaged", where,
                  number);
      add_merge(text.substr(0, space), text.substr(space + 1), number, vocabulary, where, merges);
    }
    ++number;
  }
  return merges;
}

AddedToken read_added_token(const Json& object, int id, std::string_view where) {
  const auto flag = [&](const char* key) {
    const Json* value = find_field(object, key, where);
    return value && !value->is_null() && get_bool(object, key, where);
  };
  AddedToken token{.id = id, .text = get_string(object, "content", where)};
  if (token.text.empty()) bad_input("{}: \"content\" of added token {} is empty; give its text", where, id);
  token.single_word = flag("single_word");
  token.special = flag("special");
  token.strip_left = flag("lstrip");
  token.strip_right = flag("rstrip");
  token.normalized = flag("normalized");
  return token;
}

}  // namespace weft
