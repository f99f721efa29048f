#include "weft/io/tensor/unique_keys.h"

#include <string>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"

namespace weft {
namespace {

// nlohmann's interface for reading events: true means "go on".
class KeyWatch final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    twice = name;
    return false;
  }

  std::string twice;

 private:
  std::vector<std::unordered_set<std::string>> open_;
};

}  // namespace

void check_unique_keys(std::string_view text, std::string_view where) {
  KeyWatch watch;
  if (!Json::sax_parse(text.begin(), text.end(), &watch))
    bad_input("{}: {} is there twice; leave one of them", where, weft::quoted(watch.twice));
}

}  // namespace weft
