#include "weft/draw/svg.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace weft::draw {
namespace {

constexpr const char* kFonts = "-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";
constexpr double kMostPixels = 1e6;  // far outside any canvas; renderers misbehave beyond

std::string points_text(const std::vector<Point>& points) {
  std::string text;
  for (const Point& p : points) text += (text.empty() ? "" : " ") + number(p.x) + "," + number(p.y);
  return text;
}

// The length of the UTF-8 sequence that begins here; 0 where the bytes are none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xf0 && first < 0xf5 ? 4
                             : first >= 0xe0                 ? 3
                             : first >= 0xc2                 ? 2
                                                             : 0;
  if (first >= 0xf5 || length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0u) != 0x80u) return 0;
  return length;
}

}  // namespace

std::string number(double value) {
  if (!std::isfinite(value)) return "0";
  value = std::min(kMostPixels, std::max(-kMostPixels, value));
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const char c = text[i];
    if (length > 1)
      out += text.substr(i, length);
    else if (length == 0 || static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += c == '\n' || c == '\t' ? ' ' : '?';
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
    i += std::max<std::size_t>(1, length);
  }
  return out;
}

double text_width(std::string_view text, double size) {
  double ems = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0u) == 0x80u) continue;  // the rest of a character
    const bool narrow = std::string_view("il.,:;'|!()[] ").find(c) != std::string_view::npos;
    const bool wide = std::string_view("mwMW%@").find(c) != std::string_view::npos;
    ems += narrow ? 0.36 : wide ? 0.95 : 0.63;
  }
  return ems * size;
}

Svg::Svg(double width, double height, std::string_view label) {
  body_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"{2}\" font-family=\"{3}\">\n<title>{2}</title>\n",
      number(width), number(height), escaped(label), kFonts);
  rect(0, 0, width, height, {.fill = "#ffffff"});
}

void Svg::element(std::string_view tag, const std::string& attributes, const Style& style, std::string_view hint) {
  body_ += fmt::format("<{}{} fill=\"{}\"", tag, attributes, escaped(style.fill));
  if (style.stroke != "none")
    body_ += fmt::format(" stroke=\"{}\" stroke-width=\"{}\"", escaped(style.stroke), number(style.stroke_width));
  if (!style.dash.empty()) body_ += fmt::format(" stroke-dasharray=\"{}\"", escaped(style.dash));
  if (style.opacity < 1) body_ += fmt::format(" opacity=\"{}\"", number(style.opacity));
  body_ += hint.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", escaped(hint), tag);
}

void Svg::rect(double x, double y, double width, double height, const Style& style, std::string_view hint) {
  std::string attributes = fmt::format(" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(x), number(y),
                                       number(std::max(0.0, width)), number(std::max(0.0, height)));
  if (style.radius > 0) attributes += fmt::format(" rx=\"{}\"", number(style.radius));
  element("rect", attributes, style, hint);
}

void Svg::line(Point from, Point to, const Style& style) {
  element("line",
          fmt::format(" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", number(from.x), number(from.y), number(to.x),
                      number(to.y)),
          style, {});
}

void Svg::polyline(const std::vector<Point>& points, const Style& style) {
  element("polyline", fmt::format(" points=\"{}\" stroke-linejoin=\"round\"", points_text(points)), style, {});
}

void Svg::polygon(const std::vector<Point>& points, const Style& style) {
  element("polygon", fmt::format(" points=\"{}\"", points_text(points)), style, {});
}

void Svg::circle(Point center, double radius, const Style& style, std::string_view hint) {
  element("circle", fmt::format(" cx=\"{}\" cy=\"{}\" r=\"{}\"", number(center.x), number(center.y), number(radius)),
          style, hint);
}

void Svg::text(Point at, std::string_view text, const TextStyle& style) {
  const char* anchor = style.anchor == Anchor::start ? "start" : style.anchor == Anchor::middle ? "middle" : "end";
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\" text-anchor=\"{}\"", number(at.x),
                       number(at.y), number(style.size), escaped(style.fill), anchor);
  if (style.bold) body_ += " font-weight=\"600\"";
  if (style.rotate != 0)
    body_ += fmt::format(" transform=\"rotate({} {} {})\"", number(style.rotate), number(at.x), number(at.y));
  body_ += fmt::format(">{}</text>\n", escaped(text));
}

void Svg::open_group(std::string_view name) {
  body_ += fmt::format("<g aria-label=\"{}\">\n", escaped(name));
  ++open_groups_;
}

void Svg::close_group() {
  if (open_groups_ == 0) return;
  body_ += "</g>\n";
  --open_groups_;
}

std::string Svg::str() const {
  std::string out = body_;
  for (int i = 0; i < open_groups_; ++i) out += "</g>\n";
  return out + "</svg>\n";
}

}  // namespace weft::draw
