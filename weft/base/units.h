// Text for quantities, one spelling for the command line, JSON and tables. Values inside Weft are always
// in base units: bytes, bytes a second, seconds.
//
//   bytes      B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024); none: bytes
//   rates      bit, kbit, mbit, gbit, tbit in any case, with or without "/s"; B/s ... TiB/s
//   durations  ns, us, ms, s
//
// A blank between number and unit is allowed. Numbers are finite and not negative.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// Each throws bad_input naming the text and the units it could have used.
std::int64_t parse_bytes(std::string_view text);  // "4 KB" -> 4000; rounded to whole bytes
double parse_rate(std::string_view text);         // "10gbit" -> 1.25e9; more than 0
double parse_duration(std::string_view text);     // "12.3 us" -> 1.23e-5

// Three to four significant digits in the largest unit that leaves at least 1.
std::string format_bytes(double bytes);           // "4.00 KB"
std::string format_rate(double bytes_per_s);      // "1.25 GB/s"
std::string format_bit_rate(double bytes_per_s);  // "2.5 Gbit/s", as links are sold
std::string format_duration(double seconds);      // "12.3 us"

}  // namespace weft
