// From tokens to a tree, by recursive descent in the order of Jinja's operators. Depth is bounded, so that no template
// exhausts the stack.
#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/jinja/syntax.h"

namespace weft::jinja {
namespace {

constexpr int kMostDepth = 60;

class Parser {
 public:
  Parser(std::string_view text, const std::string& where) : where_(where), tokens_(tokenise(text, where)) {}

  Body run() {
    Body body = block({});
    if (now().kind != Token::Kind::end) refuse("something stands where the template should end");
    return body;
  }

 private:
  struct Deeper {
    explicit Deeper(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMostDepth) parser_.refuse("it is nested too deep");
    }
    ~Deeper() { --parser_.depth_; }
    Parser& parser_;
  };

  [[noreturn]] void refuse(std::string_view why) const {
    bad_input("{}: line {} of the chat template: {}", where_, now().line, why);
  }
  const Token& now() const { return tokens_[at_]; }
  const Token& ahead(std::size_t by) const { return tokens_[std::min(at_ + by, tokens_.size() - 1)]; }
  bool is(Token::Kind kind, std::string_view text) const { return now().kind == kind && now().text == text; }
  bool is_symbol(std::string_view text) const { return is(Token::Kind::symbol, text); }
  bool is_word(std::string_view text) const { return is(Token::Kind::name, text); }
  bool take_symbol(std::string_view text) { return is_symbol(text) && ++at_ > 0; }
  bool take_word(std::string_view text) { return is_word(text) && ++at_ > 0; }
  void want_symbol(std::string_view text) {
    if (!take_symbol(text)) refuse(fmt::format("\"{}\" is missing", text));
  }
  void end_block() {
    if (now().kind != Token::Kind::end_block)
      refuse(fmt::format("{} stands where the block should end", weft::quoted(now().text)));
    ++at_;
  }
  std::string want_name() {
    if (now().kind != Token::Kind::name) refuse("a name is missing");
    return tokens_[at_++].text;
  }

  static ExprPtr make(Expr::Kind kind, int line, std::string text = "") {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = line;
    expr->text = std::move(text);
    return expr;
  }
  template <typename... Parts>
  ExprPtr join(Expr::Kind kind, std::string text, Parts... parts) {
    ExprPtr expr = make(kind, now().line, std::move(text));
    (expr->parts.push_back(std::move(parts)), ...);
    return expr;
  }

  // Statements up to one of the words, which is left for the caller.
  Body block(std::initializer_list<std::string_view> ends) {
    const Deeper deeper(*this);
    Body body;
    while (now().kind != Token::Kind::end) {
      auto node = std::make_unique<Node>();
      node->line = now().line;
      if (now().kind == Token::Kind::text) {
        node->text = tokens_[at_++].text;
      } else if (now().kind == Token::Kind::begin_print) {
        ++at_;
        node->kind = Node::Kind::print;
        node->expr = tuple();
        if (now().kind != Token::Kind::end_print) refuse("\"}}\" is missing");
        ++at_;
      } else {
        if (ahead(1).kind != Token::Kind::name) refuse("a block begins without a word");
        for (const std::string_view end : ends)
          if (ahead(1).text == end) return body;
        ++at_;
        statement(*node);
      }
      body.push_back(std::move(node));
    }
    if (ends.size() > 0) refuse(fmt::format("{{% {} %}} is missing", *(ends.end() - 1)));
    return body;
  }

  // The word that ended a block; `{% word` is behind us then.
  std::string ended_by() {
    ++at_;
    return tokens_[at_++].text;
  }

  void statement(Node& node) {
    const std::string word = want_name();
    if (word == "if") return if_statement(node);
    if (word == "for") return for_statement(node);
    if (word == "set") return set_statement(node);
    if (word == "macro") return macro_statement(node);
    if (word == "generation") {
      node.kind = Node::Kind::group;
      end_block();
      node.bodies.push_back(block({"endgeneration"}));
      ended_by();
    } else if (word == "break" || word == "continue") {
      node.kind = word == "break" ? Node::Kind::leave : Node::Kind::next;
      if (loops_ == 0) refuse(fmt::format("{{% {} %}} stands outside of a loop", word));
    } else {
      refuse(fmt::format("{{% {} %}} is not done here; if, for, set, macro, generation, break, continue and raw are",
                         word));
    }
    end_block();
  }

  void if_statement(Node& node) {
    node.kind = Node::Kind::choose;
    for (std::string word = "if"; word != "endif"; word = ended_by()) {
      if (word != "else") node.conditions.push_back(expression());
      end_block();
      node.bodies.push_back(word == "else" ? block({"endif"}) : block({"elif", "else", "endif"}));
    }
    end_block();
  }

  void for_statement(Node& node) {
    node.kind = Node::Kind::loop;
    do node.names.push_back(want_name());
    while (take_symbol(","));
    if (!take_word("in")) refuse("a for has no \"in\"");
    node.expr = disjunction();
    if (take_word("if")) node.conditions.push_back(expression());
    if (is_word("recursive")) refuse("a recursive loop is not done here");
    end_block();
    ++loops_;
    node.bodies.push_back(block({"else", "endfor"}));
    --loops_;
    if (ended_by() == "else") {
      end_block();
      node.bodies.push_back(block({"endfor"}));
      ended_by();
    }
    end_block();
  }

  void set_statement(Node& node) {
    node.kind = Node::Kind::set;
    node.names.push_back(want_name());
    if (take_symbol(".")) node.attribute = want_name();
    while (take_symbol(",")) node.names.push_back(want_name());
    if (take_symbol("=")) {
      node.expr = tuple();
      return end_block();
    }
    end_block();
    node.bodies.push_back(block({"endset"}));
    ended_by();
    end_block();
  }

  void macro_statement(Node& node) {
    node.kind = Node::Kind::macro;
    node.names.push_back(want_name());
    want_symbol("(");
    while (!take_symbol(")")) {
      node.names.push_back(want_name());
      node.conditions.push_back(take_symbol("=") ? expression() : nullptr);
      if (!is_symbol(")")) want_symbol(",");
    }
    end_block();
    const int loops = loops_;
    loops_ = 0;
    node.bodies.push_back(block({"endmacro"}));
    loops_ = loops;
    ended_by();
    end_block();
  }

  // a, b without brackets is a list.
  ExprPtr tuple() {
    ExprPtr first = expression();
    if (!is_symbol(",")) return first;
    ExprPtr list = join(Expr::Kind::list, "", std::move(first));
    while (take_symbol(",")) list->parts.push_back(expression());
    return list;
  }

  ExprPtr expression() {
    const Deeper deeper(*this);
    ExprPtr value = disjunction();
    while (take_word("if")) {
      ExprPtr condition = disjunction();
      ExprPtr otherwise = take_word("else") ? expression() : nullptr;
      value = join(Expr::Kind::conditional, "", std::move(value), std::move(condition), std::move(otherwise));
    }
    return value;
  }

  ExprPtr disjunction() {
    ExprPtr left = conjunction();
    while (take_word("or")) left = join(Expr::Kind::binary, "or", std::move(left), conjunction());
    return left;
  }
  ExprPtr conjunction() {
    ExprPtr left = negation();
    while (take_word("and")) left = join(Expr::Kind::binary, "and", std::move(left), negation());
    return left;
  }
  ExprPtr negation() {
    const Deeper deeper(*this);
    if (take_word("not")) return join(Expr::Kind::unary, "not", negation());
    return comparison();
  }
  ExprPtr comparison() {
    ExprPtr left = sum();
    for (bool found = true; found;) {
      found = false;
      for (const std::string_view symbol : {"==", "!=", "<=", ">=", "<", ">"})
        if (take_symbol(symbol)) {
          left = join(Expr::Kind::binary, std::string(symbol), std::move(left), sum());
          found = true;
          break;
        }
      if (found) continue;
      if (is_word("not") && ahead(1).text == "in" && ahead(1).kind == Token::Kind::name) {
        at_ += 2;
        left = join(Expr::Kind::unary, "not", join(Expr::Kind::binary, "in", std::move(left), sum()));
        found = true;
      } else if (take_word("in")) {
        left = join(Expr::Kind::binary, "in", std::move(left), sum());
        found = true;
      }
    }
    return left;
  }
  ExprPtr sum() {
    ExprPtr left = concatenation();
    while (is_symbol("+") || is_symbol("-")) {
      const std::string symbol = tokens_[at_++].text;
      left = join(Expr::Kind::binary, symbol, std::move(left), concatenation());
    }
    return left;
  }
  ExprPtr concatenation() {
    ExprPtr left = product();
    while (take_symbol("~")) left = join(Expr::Kind::binary, "~", std::move(left), product());
    return left;
  }
  ExprPtr product() {
    ExprPtr left = sign();
    while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
      const std::string symbol = tokens_[at_++].text;
      left = join(Expr::Kind::binary, symbol, std::move(left), sign());
    }
    return left;
  }
  // A sign goes before a filter: -1 | abs is 1.
  ExprPtr sign() { return filtered(signed_primary()); }
  ExprPtr signed_primary() {
    const Deeper deeper(*this);
    if (take_symbol("-")) return join(Expr::Kind::unary, "-", signed_primary());
    if (take_symbol("+")) return signed_primary();
    return postfixed(primary());
  }

  ExprPtr filtered(ExprPtr value) {
    while (true) {
      if (take_symbol("|")) {
        ExprPtr filter = join(Expr::Kind::filter, want_name(), std::move(value));
        if (take_symbol("(")) arguments(*filter);
        value = std::move(filter);
      } else if (take_word("is")) {
        const bool negated = take_word("not");
        ExprPtr test = join(Expr::Kind::test, want_name(), std::move(value));
        if (take_symbol("("))
          arguments(*test);
        else if (begins_operand())
          test->parts.push_back(postfixed(primary()));
        value = negated ? join(Expr::Kind::unary, "not", std::move(test)) : std::move(test);
      } else {
        return value;
      }
    }
  }
  // `x is equalto "y"` takes an operand without brackets; a word of an expression that goes on is none.
  bool begins_operand() const {
    if (now().kind == Token::Kind::string || now().kind == Token::Kind::number) return true;
    if (is_symbol("[") || is_symbol("{")) return true;
    if (now().kind != Token::Kind::name) return false;
    for (const std::string_view word : {"and", "or", "if", "else", "not", "in", "is"})
      if (now().text == word) return false;
    return true;
  }

  ExprPtr postfixed(ExprPtr value) {
    while (true) {
      if (take_symbol(".")) {
        if (now().kind == Token::Kind::number) {
          ExprPtr index = make(Expr::Kind::literal, now().line);
          index->value = Value::of(static_cast<std::int64_t>(std::strtoll(tokens_[at_++].text.c_str(), nullptr, 10)));
          value = join(Expr::Kind::item, "", std::move(value), std::move(index));
        } else {
          value = join(Expr::Kind::attribute, want_name(), std::move(value));
        }
      } else if (take_symbol("[")) {
        value = subscript(std::move(value));
      } else if (take_symbol("(")) {
        value = join(Expr::Kind::call, "", std::move(value));
        arguments(*value);
      } else {
        return value;
      }
    }
  }

  ExprPtr subscript(ExprPtr value) {
    ExprPtr parts[3];
    bool slice = false;
    for (std::size_t i = 0; i < 3; ++i) {
      if (!is_symbol(":") && !is_symbol("]")) parts[i] = expression();
      if (!take_symbol(":")) break;
      slice = true;
    }
    want_symbol("]");
    if (!slice && !parts[0]) refuse("[] has no index");
    if (!slice) return join(Expr::Kind::item, "", std::move(value), std::move(parts[0]));
    return join(Expr::Kind::slice, "", std::move(value), std::move(parts[0]), std::move(parts[1]), std::move(parts[2]));
  }

  void arguments(Expr& call) {
    while (!take_symbol(")")) {
      if (now().kind == Token::Kind::name && ahead(1).kind == Token::Kind::symbol && ahead(1).text == "=") {
        std::string name = want_name();
        ++at_;
        call.named.emplace_back(std::move(name), expression());
      } else {
        call.parts.push_back(expression());
      }
      if (!is_symbol(")")) want_symbol(",");
    }
  }

  ExprPtr primary() {
    const Deeper deeper(*this);
    const Token& token = now();
    ExprPtr literal = make(Expr::Kind::literal, token.line);
    switch (token.kind) {
      case Token::Kind::string: {
        std::string text;
        while (now().kind == Token::Kind::string) text += tokens_[at_++].text;
        literal->value = Value::of(std::move(text));
        return literal;
      }
      case Token::Kind::number:
        literal->value = number(tokens_[at_++].text);
        return literal;
      case Token::Kind::name:
        return name_or_constant(std::move(literal));
      default:
        break;
    }
    if (take_symbol("(")) return bracketed();
    if (take_symbol("[")) return items(Expr::Kind::list, "]");
    if (take_symbol("{")) return items(Expr::Kind::dict, "}");
    refuse(fmt::format("{} stands where a value should", weft::quoted(token.text)));
  }

  ExprPtr name_or_constant(ExprPtr literal) {
    const std::string word = tokens_[at_++].text;
    if (word == "true" || word == "True" || word == "false" || word == "False")
      literal->value = Value::of(word == "true" || word == "True");
    else if (word == "none" || word == "None")
      literal->value = Value::none();
    else
      return make(Expr::Kind::name, literal->line, word);
    return literal;
  }

  Value number(std::string text) const {
    std::erase(text, '_');
    if (text.find('.') != std::string::npos) return Value::of(std::strtod(text.c_str(), nullptr));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) refuse("a number is too large");
    return Value::of(value);
  }

  ExprPtr bracketed() {
    if (take_symbol(")")) return make(Expr::Kind::list, now().line);
    ExprPtr value = expression();
    if (is_symbol(",")) {
      value = join(Expr::Kind::list, "", std::move(value));
      while (take_symbol(","))
        if (!is_symbol(")")) value->parts.push_back(expression());
    }
    want_symbol(")");
    return value;
  }

  ExprPtr items(Expr::Kind kind, std::string_view close) {
    ExprPtr value = make(kind, now().line);
    while (!take_symbol(close)) {
      value->parts.push_back(expression());
      if (kind == Expr::Kind::dict) {
        want_symbol(":");
        value->parts.push_back(expression());
      }
      if (!is_symbol(close)) want_symbol(",");
    }
    return value;
  }

  const std::string& where_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Body parse(std::string_view text, const std::string& where) { return Parser(text, where).run(); }

}  // namespace weft::jinja
