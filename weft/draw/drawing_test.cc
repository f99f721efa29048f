#include "weft/draw/drawing_test.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "weft/draw/svg.h"

namespace weft::draw {
namespace {

double attribute(const std::string& tag, const std::string& name) {
  const std::size_t at = tag.find(" " + name + "=\"");
  return at == std::string::npos ? 0 : std::stod(tag.substr(at + name.size() + 3));
}

std::string unescaped(std::string text) {
  for (const auto& [from, to] : {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}})
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1))
      text.replace(at, std::string_view(from).size(), to);
  return text;
}

DrawnText drawn_text(const std::string& tag, const std::string& text) {
  DrawnText out{.text = text, .x = attribute(tag, "x"), .y = attribute(tag, "y")};
  const double size = attribute(tag, "font-size"), width = text_width(text, size);
  const double left = tag.find("\"middle\"") != std::string::npos ? -width / 2
                      : tag.find("\"end\"") != std::string::npos  ? -width
                                                                  : 0;
  const std::size_t turned = tag.find("rotate(");
  const double angle = turned == std::string::npos ? 0 : std::stod(tag.substr(turned + 7)) * std::numbers::pi / 180;
  const std::array<std::array<double, 2>, 4> level{
      {{left, -0.75 * size}, {left + width, -0.75 * size}, {left + width, 0.2 * size}, {left, 0.2 * size}}};
  for (std::size_t i = 0; i < 4; ++i)
    out.corners[i] = {out.x + level[i][0] * std::cos(angle) - level[i][1] * std::sin(angle),
                      out.y + level[i][0] * std::sin(angle) + level[i][1] * std::cos(angle)};
  return out;
}

// Whether a line along an edge of `a` parts two boxes.
bool parted(const DrawnText& a, const DrawnText& b) {
  for (std::size_t edge = 0; edge < 2; ++edge) {
    const double nx = a.corners[edge + 1][1] - a.corners[edge][1], ny = a.corners[edge][0] - a.corners[edge + 1][0];
    std::array<double, 2> low{1e9, 1e9}, high{-1e9, -1e9};
    for (std::size_t which = 0; which < 2; ++which)
      for (const auto& [x, y] : (which == 0 ? a : b).corners) {
        low[which] = std::min(low[which], nx * x + ny * y);
        high[which] = std::max(high[which], nx * x + ny * y);
      }
    if (high[0] <= low[1] || high[1] <= low[0]) return true;
  }
  return false;
}

}  // namespace

std::string xml_fault(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] != '<') {
      if (text[at] == '>') return "a bare >";
      if (text[at] == '&' && text.find(';', at) > at + 6) return "a bare &";
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    for (bool quoted = false; end < text.size() && (quoted || text[end] != '>'); ++end) {
      if (text[end] == '"') quoted = !quoted;
      if (text[end] == '<') return "a < inside a tag";
    }
    if (end >= text.size()) return "a tag without an end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find(' '));
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "</" + tag.substr(1) + "> closes nothing";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is left open";
}

void expect_drawing(const std::string& svg) {
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(svg.find("<svg xmlns="), 0u);
  for (const char* word : {"\"nan", "\"inf", "-nan", "\"-inf"}) EXPECT_EQ(svg.find(word), std::string::npos) << word;
  EXPECT_NE(svg.find("fill=\"#ffffff\""), std::string::npos);  // the background
}

std::vector<DrawnText> texts_of(const std::string& svg) {
  std::vector<DrawnText> out;
  for (std::size_t at = svg.find("<text "); at != std::string::npos; at = svg.find("<text ", at + 1)) {
    const std::size_t open = svg.find('>', at), close = svg.find("</text>", at);
    const std::string text = unescaped(svg.substr(open + 1, close - open - 1));
    if (!text.empty()) out.push_back(drawn_text(svg.substr(at, open - at), text));
  }
  return out;
}

void expect_texts_apart(const std::string& svg) {
  const double width = attribute(svg.substr(0, svg.find('>')), "width");
  const double height = attribute(svg.substr(0, svg.find('>')), "height");
  const std::vector<DrawnText> texts = texts_of(svg);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (const auto& [x, y] : texts[i].corners)
      EXPECT_TRUE(x >= 0 && x <= width && y >= 0 && y <= height) << texts[i].text << " at " << x << ", " << y;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_TRUE(parted(texts[i], texts[j]) || parted(texts[j], texts[i])) << texts[i].text << " on " << texts[j].text;
  }
}

}  // namespace weft::draw
