// Statements of a template.
#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/jinja/interpreter.h"
#include "weft/io/unicode/unicode.h"

namespace weft::jinja {
namespace {

constexpr int kMostCalls = 40;

}  // namespace

Value Arguments::get(std::size_t place, std::string_view name) const {
  if (place < list.size()) return list[place];
  for (const auto& [key, value] : named)
    if (key == name) return value;
  return {};
}

Interpreter::Interpreter(const std::string& where, const Dict& variables, const RenderOptions& options)
    : where_(where), options_(options), scopes_{variables} {}

void Interpreter::refuse(std::string_view why) const {
  bad_input("{}: line {} of the chat template: {}", where_, line_, why);
}

void Interpreter::step(std::size_t cost) const {
  steps_ += cost;
  if (steps_ > options_.most_steps)
    refuse(fmt::format("it takes more than {} steps; it is refused", options_.most_steps));
}

void Interpreter::print(const std::string& text, std::string& out) {
  step(text.size() / kBytesPerStep);
  out += text;
  if (out.size() > options_.most_bytes)
    refuse(fmt::format("it makes more than {} bytes; it is refused", options_.most_bytes));
}

void Interpreter::run(const Body& body, std::string& out) { run_all(body, out); }

Interpreter::Flow Interpreter::run_all(const Body& body, std::string& out) {
  for (const auto& node : body)
    if (const Flow flow = run_one(*node, out); flow != Flow::go) return flow;
  return Flow::go;
}

Interpreter::Flow Interpreter::run_one(const Node& node, std::string& out) {
  step();
  line_ = node.line;
  switch (node.kind) {
    case Node::Kind::text:
      print(node.text, out);
      return Flow::go;
    case Node::Kind::print:
      print(evaluate(*node.expr).text_form(), out);
      return Flow::go;
    case Node::Kind::choose:
      return choose(node, out);
    case Node::Kind::loop:
      loop(node, out);
      return Flow::go;
    case Node::Kind::set:
      set(node, out);
      return Flow::go;
    case Node::Kind::macro:
      scopes_.back().set(node.names[0], Value::of(std::make_shared<const Macro>(Macro{&node})));
      return Flow::go;
    case Node::Kind::group:
      return run_all(node.bodies[0], out);
    case Node::Kind::leave:
      return Flow::leave;
    case Node::Kind::next:
      return Flow::next;
  }
  return Flow::go;
}

Interpreter::Flow Interpreter::choose(const Node& node, std::string& out) {
  for (std::size_t i = 0; i < node.bodies.size(); ++i)
    if (i >= node.conditions.size() || evaluate(*node.conditions[i]).truthy()) return run_all(node.bodies[i], out);
  return Flow::go;
}

void Interpreter::bind(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) return scopes_.back().set(names[0], value);
  if (value.kind != Value::Kind::list || value.list->size() != names.size())
    refuse(fmt::format("{} names are set from {}, which is no list of as many", names.size(), value.kind_name()));
  for (std::size_t i = 0; i < names.size(); ++i) scopes_.back().set(names[i], (*value.list)[i]);
}

void Interpreter::loop(const Node& node, std::string& out) {
  List items = items_of(evaluate(*node.expr));
  if (!node.conditions.empty()) {
    List kept;
    for (const Value& item : items) {
      step();
      scopes_.emplace_back();
      bind(node.names, item);
      if (evaluate(*node.conditions[0]).truthy()) kept.push_back(item);
      scopes_.pop_back();
    }
    items = std::move(kept);
  }
  if (items.empty() && node.bodies.size() > 1) run_all(node.bodies[1], out);
  const auto count = std::ssize(items);
  for (std::int64_t i = 0; i < count; ++i) {
    step();
    scopes_.emplace_back();
    bind(node.names, items[at(i)]);
    Dict about;
    about.set("index", Value::of(i + 1));
    about.set("index0", Value::of(i));
    about.set("revindex", Value::of(count - i));
    about.set("revindex0", Value::of(count - i - 1));
    about.set("first", Value::of(i == 0));
    about.set("last", Value::of(i + 1 == count));
    about.set("length", Value::of(std::int64_t{count}));
    if (i > 0) about.set("previtem", items[at(i - 1)]);
    if (i + 1 < count) about.set("nextitem", items[at(i + 1)]);
    scopes_.back().set("loop", Value::of(std::move(about)));
    const Flow flow = run_all(node.bodies[0], out);
    scopes_.pop_back();
    if (flow == Flow::leave) break;
  }
}

void Interpreter::set(const Node& node, std::string&) {
  Value value;
  if (node.expr != nullptr) {
    value = evaluate(*node.expr);
  } else {
    std::string text;
    run_all(node.bodies[0], text);
    value = Value::of(std::move(text));
  }
  if (node.attribute.empty()) return bind(node.names, value);
  const Value* target = find(node.names[0]);
  if (target == nullptr || target->kind != Value::Kind::dict || !target->dict->is_namespace)
    refuse(fmt::format("{}.{} is set, but {} is no namespace", node.names[0], node.attribute, node.names[0]));
  if (value.has_namespace) refuse("a namespace is put into a namespace, which is not done here");
  target->dict->set(node.attribute, std::move(value));
}

// A macro sees the template's own names and its parameters.
Value Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  if (++depth_ > kMostCalls) refuse("macros call each other too deep");
  const Node& node = *macro.node;
  if (arguments.list.size() + 1 > node.names.size())
    refuse(fmt::format("{} is given too many arguments", node.names[0]));
  Dict own;
  for (std::size_t i = 1; i < node.names.size(); ++i) {
    Value value = arguments.get(i - 1, node.names[i]);
    if (value.kind == Value::Kind::undefined && node.conditions[i - 1] != nullptr)
      value = evaluate(*node.conditions[i - 1]);
    own.set(node.names[i], std::move(value));
  }
  std::vector<Dict> inner{scopes_.front(), std::move(own)};
  std::swap(inner, scopes_);
  std::string text;
  run_all(node.bodies[0], text);
  std::swap(inner, scopes_);
  --depth_;
  return Value::of(std::move(text));
}

const Value* Interpreter::find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const Value* value = scope->find(name)) return value;
  return nullptr;
}

List Interpreter::items_of(const Value& value) const {
  switch (value.kind) {
    case Value::Kind::undefined:
      return {};
    case Value::Kind::list:
      step(value.list->size());
      return *value.list;
    case Value::Kind::dict: {
      step(value.dict->items.size());
      List names;
      for (const auto& [name, item] : value.dict->items) names.push_back(Value::of(name));
      return names;
    }
    case Value::Kind::text: {
      step(value.text.size());
      List characters;
      for (std::string_view rest = value.text; !rest.empty();) {
        const std::size_t length = first_character(rest).length;
        characters.push_back(Value::of(std::string(rest.substr(0, length))));
        rest.remove_prefix(length);
      }
      return characters;
    }
    default:
      refuse(fmt::format("{} is no list to go over", value.kind_name()));
  }
}

Template Template::parse(std::string_view text, std::string where) {
  Template out;
  out.where_ = std::move(where);
  out.body_ = std::make_shared<const Body>(jinja::parse(text, out.where_));
  return out;
}

std::string Template::render(const Dict& variables, const RenderOptions& options) const {
  std::string out;
  Interpreter(where_, variables, options).run(*body_, out);
  return out;
}

}  // namespace weft::jinja
