// Values of flags that mean something: a number is read whole, strictly and within what its variable can hold, and no
// flag takes an empty value. What is refused is refused while flags are read: the sentence has the flag and the value.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>

namespace weft::cli {

// Throws bad_input unless the text is a whole number in decimal digits from `least` to `most`.
void check_whole(const std::string& flag, const std::string& text, std::int64_t least, std::uint64_t most);
// The number that the text is; throws bad_input unless it is a finite one.
double read_finite(const std::string& flag, const std::string& text);

template <typename T>
struct NumberOf {
  using type = T;
};
template <typename T>
struct NumberOf<std::optional<T>> {
  using type = T;
};

// A flag that takes a number: a finite one, or a whole one of at least `least`, for the commands whose variable has a
// value of its own for "not given".
template <typename T, typename Number = typename NumberOf<T>::type>
CLI::Option* add_number(CLI::App& app, const std::string& flag, T* value, const std::string& help,
                        Number least = std::numeric_limits<Number>::lowest()) {
  const std::string name = flag.substr(flag.rfind(',') + 1);  // of "-n,--ranks" the long one
  const auto check = [name, least](const std::string& text) {
    if constexpr (std::is_floating_point_v<Number>)
      read_finite(name, text);
    else
      check_whole(name, text, static_cast<std::int64_t>(least),
                  static_cast<std::uint64_t>(std::numeric_limits<Number>::max()));
    return std::string();
  };
  return app.add_option(flag, *value, help)->check(check);
}

// For all flags of all commands: --m "" is refused, and not taken for --m 0 or for no --m at all.
void refuse_empty_values(CLI::App& app);

}  // namespace weft::cli
