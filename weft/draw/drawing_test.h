// What tests of drawings share: is a document well-formed, and where do its texts lie?
#pragma once

#include <array>
#include <string>
#include <vector>

namespace weft::draw {

// What is wrong with a document that should be XML of elements, attributes in double quotes and text; "" for nothing.
std::string xml_fault(const std::string& text);

void expect_drawing(const std::string& svg);

// A text with the corners of the box that it fills at most.
struct DrawnText {
  std::string text;
  double x = 0, y = 0;  // where it is anchored
  std::array<std::array<double, 2>, 4> corners{};
};
std::vector<DrawnText> texts_of(const std::string& svg);

// No two texts touch, and none leaves the canvas.
void expect_texts_apart(const std::string& svg);

}  // namespace weft::draw
