#include "weft/base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr std::array<Unit, 10> kByteUnits{{{"B", 1},
                                           {"KB", 1e3},
                                           {"kB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"KiB", kKi},
                                           {"MiB", kKi* kKi},
                                           {"GiB", kKi* kKi* kKi},
                                           {"TiB", kKi* kKi* kKi* kKi}}};
constexpr std::array<Unit, 5> kBitUnits{
    {{"bit", 0.125}, {"kbit", 125.0}, {"mbit", 125e3}, {"gbit", 125e6}, {"tbit", 125e9}}};
// By how many make a second: dividing by a whole number rounds once, so "10us" is the double 10e-6.
constexpr std::array<Unit, 5> kPerSecond{{{"ns", 1e9}, {"us", 1e6}, {"\u00b5s", 1e6}, {"ms", 1e3}, {"s", 1}}};

const Unit* find(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct Quantity {
  double number;
  std::string_view unit;
};

Quantity split(std::string_view text, std::string_view what, std::string_view remedy) {
  const std::string_view body = trimmed(text);
  Quantity result{};
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), result.number);
  if (error != std::errc{} || !std::isfinite(result.number) || result.number < 0)
    bad_input("cannot read \"{}\" as {}; {}", text, what, remedy);
  result.unit = trimmed(body.substr(num(end - body.data())));
  return result;
}

std::string significant(double value, std::string_view unit) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

// `units` ascend. A value that would print as 1000 of a unit goes to the next.
std::string format_in(std::span<const Unit> units, double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (value < 0) return fmt::format("-{}", format_in(units, -value));
  std::size_t i = 0;
  while (i + 1 < units.size() && value / units[i].factor >= 999.5) ++i;
  return significant(value / units[i].factor, units[i].name);
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  constexpr std::string_view kRemedy = "write a number and a unit, as 4096, 4 KB or 16 MiB";
  const Quantity quantity = split(text, "a number of bytes", kRemedy);
  const Unit* unit = quantity.unit.empty() ? kByteUnits.data() : find(kByteUnits, quantity.unit);
  if (!unit) bad_input("unknown unit \"{}\" in \"{}\"; {}", quantity.unit, text, kRemedy);
  const double bytes = std::round(quantity.number * unit->factor);
  if (bytes > 9e18) bad_input("\"{}\" is more than 9 EB; use a smaller number of bytes", text);
  return static_cast<std::int64_t>(bytes);
}

double parse_rate(std::string_view text) {
  constexpr std::string_view kRemedy = "write a number and a unit, as 10gbit, 800mbit or 11 GB/s";
  const Quantity quantity = split(text, "a rate", kRemedy);
  std::string_view name = quantity.unit;
  const bool per_second = name.size() > 2 && name.substr(name.size() - 2) == "/s";
  if (per_second) name.remove_suffix(2);
  std::string lower(name);
  for (char& c : lower) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  const Unit* unit = find(kBitUnits, lower);
  if (!unit && per_second) unit = find(kByteUnits, name);
  if (!unit) bad_input("unknown unit \"{}\" in \"{}\"; {}", quantity.unit, text, kRemedy);
  const double rate = quantity.number * unit->factor;
  if (!(rate > 0) || !std::isfinite(rate)) bad_input("\"{}\" is no usable rate; {}", text, kRemedy);
  return rate;
}

double parse_duration(std::string_view text) {
  constexpr std::string_view kRemedy = "write a number and a unit, as 800ns, 10us or 1.5 ms";
  const Quantity quantity = split(text, "a duration", kRemedy);
  const Unit* unit = find(kPerSecond, quantity.unit);
  if (!unit) bad_input("unknown unit \"{}\" in \"{}\"; {}", quantity.unit, text, kRemedy);
  return quantity.number / unit->factor;
}

std::string format_bytes(double bytes) {
  if (bytes == std::floor(bytes) && std::fabs(bytes) < 1000) return fmt::format("{:.0f} B", bytes);
  constexpr std::array<Unit, 5> kUnits{{{"B", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}};
  return format_in(kUnits, bytes);
}

std::string format_rate(double bytes_per_s) {
  constexpr std::array<Unit, 5> kUnits{{{"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}}};
  return format_in(kUnits, bytes_per_s);
}

std::string format_bit_rate(double bytes_per_s) {
  const double bits = bytes_per_s * 8;
  return bits >= 1e9 ? fmt::format("{:.4g} Gbit/s", bits * 1e-9) : fmt::format("{:.4g} Mbit/s", bits * 1e-6);
}

std::string format_duration(double seconds) {
  if (seconds == 0) return "0 s";
  constexpr std::array<Unit, 4> kUnits{{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};
  return format_in(kUnits, seconds);
}

}  // namespace weft
