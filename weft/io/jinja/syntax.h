// A template as a tree: what the parser makes and the interpreter runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/io/jinja/value.h"

namespace weft::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    literal,      // value
    name,         // text
    list,         // parts
    dict,         // parts: name, value, name, value, ...
    attribute,    // parts[0].text
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]], those left out are null
    call,         // parts[0](parts[1], ..., named)
    filter,       // parts[0] | text(parts[1], ..., named)
    test,         // parts[0] is text(parts[1], ...)
    unary,        // text parts[0]
    binary,       // parts[0] text parts[1]
    conditional,  // parts[0] if parts[1] else parts[2] (may be null)
  };
  Kind kind = Kind::literal;
  int line = 0;
  std::string text;
  Value value;
  std::vector<ExprPtr> parts;
  std::vector<std::pair<std::string, ExprPtr>> named;  // arguments by name
};

struct Node;
using Body = std::vector<std::unique_ptr<Node>>;

struct Node {
  enum class Kind {
    text,    // text
    print,   // expr
    choose,  // bodies[i] where conditions[i] holds; a last body without a condition is the else
    loop,    // names, over expr, where conditions[0] (may be absent) holds: bodies[0]; nothing to do: bodies[1]
    set,     // names = expr; text of bodies[0] where expr is null; attribute != "" for names[0].attribute
    macro,   // names[0] with parameters names[1..], their defaults in conditions; bodies[0]
    group,   // bodies[0]: {% generation %}, whose marks mean nothing here
    leave,   // break
    next,    // continue
  };
  Kind kind = Kind::text;
  int line = 0;
  std::string text, attribute;
  ExprPtr expr;
  std::vector<std::string> names;
  std::vector<ExprPtr> conditions;
  std::vector<Body> bodies;
};

struct Macro {
  const Node* node = nullptr;  // of the template, which outlives it
};

// A token of the code between braces.
struct Token {
  enum class Kind { text, name, number, string, symbol, begin_print, end_print, begin_block, end_block, end };
  Kind kind = Kind::end;
  std::string text;
  int line = 0;
};

// Throw bad_input that begins with `where` and names the line.
std::vector<Token> tokenise(std::string_view text, const std::string& where);
Body parse(std::string_view text, const std::string& where);

}  // namespace weft::jinja
