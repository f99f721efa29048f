// A canvas that writes SVG: shapes in, text out, no dependencies. Numbers have at most two decimals and everything is
// written in the order drawn, so the same drawing is the same bytes on every machine. The first shape is a background,
// so a picture reads alike on a light and on a dark page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::draw {

struct Point {
  double x = 0, y = 0;
};

struct Style {
  std::string fill = "none", stroke = "none";  // colours, as "#0072b2"
  double stroke_width = 1;
  double opacity = 1;
  std::string dash;   // as "4 3"
  double radius = 0;  // of a rectangle's corners
};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 13;
  std::string fill = "#24292f";
  Anchor anchor = Anchor::start;
  bool bold = false;
  double rotate = 0;  // degrees, about the text's own point
};

class Svg {
 public:
  // Pixels. `label` says what the picture shows, for those who cannot see it.
  Svg(double width, double height, std::string_view label);

  void rect(double x, double y, double width, double height, const Style& style, std::string_view hint = {});
  void line(Point from, Point to, const Style& style);
  void polyline(const std::vector<Point>& points, const Style& style);
  void polygon(const std::vector<Point>& points, const Style& style);
  void circle(Point center, double radius, const Style& style, std::string_view hint = {});
  void text(Point at, std::string_view text, const TextStyle& style = {});  // `at` is on the base line
  void open_group(std::string_view name);
  void close_group();

  // A hint shows when the pointer rests on a shape. The document so far, with what is open closed.
  std::string str() const;

 private:
  void element(std::string_view tag, const std::string& attributes, const Style& style, std::string_view hint);

  std::string body_;
  int open_groups_ = 0;
};

std::string escaped(std::string_view text);  // for text and attributes; characters that XML forbids become '?'
std::string number(double value);            // two decimals at most; what is not finite is 0

// An upper bound on the width of a text in the usual sans-serif fonts, for layout.
double text_width(std::string_view text, double size);

}  // namespace weft::draw
