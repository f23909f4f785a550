#include "sim/base/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "sim/base/input_limits.hpp"

namespace orrery::sim {
namespace {

std::string escape_pointer(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Builds a Node tree from parse events; the DOM parser of the library would drop all but the last of equal keys.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(const std::string& file, std::string_view text) : file_(file), text_(text) {}

  Node root;
  Faults faults;

  bool null() override { return put(Node{}); }
  bool boolean(bool value) override { return put(Node::boolean(value)); }
  bool number_integer(std::int64_t value) override { return put(Node::integer(value)); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return put(Node::real(static_cast<double>(value)));
    return put(Node::integer(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string&) override { return put(Node::real(value)); }
  bool string(std::string& value) override { return put(Node::string(std::move(value))); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Node::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Node::array()); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    key_ = value;
    repeated_ = !keys_.back().insert(value).second;
    if (repeated_)
      faults.add({file_, stack_.back()->origin().pointer + "/" + escape_pointer(value)}, "this key is given twice");
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::json::exception& error) override {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i + 1 < position && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    std::string what = error.what();
    if (const auto cut = what.find("syntax error"); cut != std::string::npos) what = what.substr(cut);
    (void)token;
    faults.add({fmt::format("{}:{}:{}", file_, line, column), ""}, "expected valid JSON: " + what);
    return false;
  }

 private:
  Node& place(Node node) {
    if (++values_ > most_values_)
      throw_fault({file_, ""}, fmt::format("expected at most {} values in a JSON document", most_values_),
                  "ORRERY_INPUT_LIMIT raises that");
    if (stack_.empty()) {
      node.set_origin({file_, ""});
      root = std::move(node);
      return root;
    }
    Node& parent = *stack_.back();
    if (parent.is_object()) {
      node.set_origin({file_, parent.origin().pointer + "/" + escape_pointer(key_)});
      return repeated_ ? parent.set(key_, std::move(node)) : parent.add(key_, std::move(node));
    }
    node.set_origin({file_, parent.origin().pointer + "/" + std::to_string(parent.items().size())});
    parent.push(std::move(node));
    return parent.items().back();
  }
  bool put(Node node) {
    place(std::move(node));
    return true;
  }
  bool open(Node node) {
    // Pointers on the stack stay valid: a parent gains no member while its child is open.
    stack_.push_back(&place(std::move(node)));
    keys_.emplace_back();
    return stack_.size() < 200;
  }
  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::string file_;
  std::string_view text_;
  std::string key_;
  std::vector<Node*> stack_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
  bool repeated_ = false;                              // the key at hand stands in its object already
  std::int64_t values_ = 0, most_values_ = most_json_values();
};

/// Documents that a config builds on.
struct Bases {
  std::vector<std::string> chain;     // files that led here, so that none leads back
  std::map<std::string, Node> known;  // with their own bases below them: one that many name is read once
};

const Node& read_with_bases(const std::filesystem::path& path, Bases& bases);

Node with_bases(Node own, const std::string& name, Bases& bases) {
  if (!own.is_object()) throw_fault({name, ""}, fmt::format("expected an object, got {}", own.shown()));
  const Node* base = own.find("base");
  if (base == nullptr) return own;
  std::vector<const Node*> names;
  if (base->is_array()) {
    for (const Node& item : base->items()) names.push_back(&item);
  } else {
    names.push_back(base);
  }
  bases.chain.push_back(name);
  Node merged = Node::object();
  for (const Node* item : names) {
    if (!item->is_string()) throw_fault(item->origin(), fmt::format("expected a path, got {}", item->shown()));
    const std::filesystem::path file = folder_of(item->origin()) / item->as_string();
    if (!std::filesystem::is_regular_file(file))
      throw_fault(item->origin(), fmt::format("expected a file, found none at '{}'", file.lexically_normal().string()));
    merge_over(merged, read_with_bases(file, bases));
  }
  bases.chain.pop_back();
  own.erase("base");
  merge_over(merged, own);
  return merged;
}

const Node& read_with_bases(const std::filesystem::path& path, Bases& bases) {
  const std::string name = path.lexically_normal().string();
  if (std::ranges::find(bases.chain, name) != bases.chain.end())
    throw_fault({bases.chain.back(), "/base"},
                fmt::format("expected a file that does not lead back here, got '{}'", name));
  if (const auto found = bases.known.find(name); found != bases.known.end()) return found->second;
  if (bases.known.size() >= kMostBases)
    throw_fault({bases.chain.back(), "/base"}, fmt::format("expected at most {} files to build on", kMostBases));
  Node merged = with_bases(read_json(name), name, bases);
  return bases.known.emplace(name, std::move(merged)).first->second;
}

/// Where the text ends that a quote, or a comment, at `i` begins; `i` itself if none does.
std::size_t skipped(std::string_view text, std::size_t i) {
  const auto behind = [&](std::string_view end, std::size_t from) {
    const std::size_t at = text.find(end, from);
    return at == std::string_view::npos ? text.size() : at + end.size();
  };
  if (text[i] == '"') {
    for (std::size_t at = i + 1; at < text.size(); ++at) {
      if (text[at] == '\\')
        ++at;
      else if (text[at] == '"')
        return at + 1;
    }
    return text.size();
  }
  if (text.substr(i, 2) == "//") return behind("\n", i);
  if (text.substr(i, 2) == "/*") return behind("*/", i + 2);
  return i;
}

/// The text with a blank for each comma behind a last item, so that places stay.
std::string without_last_commas(std::string_view text) {
  std::string out(text);
  std::size_t comma = std::string::npos;
  char before = '[';  // what stands before the comma, blanks and comments apart
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (const std::size_t end = skipped(text, i); end > i) {
      if (c == '"') before = c, comma = std::string::npos;
      i = end;
      continue;
    }
    if (c == ',' && before != '[' && before != '{' && before != ',') {
      comma = i;
    } else if ((c == ']' || c == '}') && comma != std::string::npos) {
      out[comma] = ' ';
    }
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      if (c != ',') comma = std::string::npos;
      before = c;
    }
    ++i;
  }
  return out;
}

void dump_to(const Node& node, std::string& out, int indent, int depth) {
  const auto newline = [&](int level) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent * level), ' ');
  };
  switch (node.kind()) {
    case Node::Kind::null:
      out += "null";
      return;
    case Node::Kind::boolean:
      out += node.as_boolean() ? "true" : "false";
      return;
    case Node::Kind::integer:
      out += std::to_string(node.as_integer());
      return;
    case Node::Kind::real:
      out += fmt::format("{}", node.as_number() == 0 ? 0 : node.as_number());  // "-0" would be read as a whole 0
      return;
    case Node::Kind::string:
      out += quoted(node.as_string());
      return;
    case Node::Kind::array: {
      out += '[';
      bool first = true;
      for (const Node& item : node.items()) {
        if (!first) out += indent < 0 ? "," : ", ";
        first = false;
        dump_to(item, out, indent < 0 ? indent : 0, 0);
      }
      out += ']';
      return;
    }
    case Node::Kind::object: {
      out += '{';
      bool first = true;
      const bool flat = indent == 0;
      for (const auto& [key, value] : node.members()) {
        if (!first) out += flat ? ", " : ",";
        first = false;
        if (!flat) newline(depth + 1);
        out += quoted(key) + (indent < 0 ? ":" : ": ");
        dump_to(value, out, indent, depth + 1);
      }
      if (!node.members().empty() && !flat) newline(depth);
      out += '}';
      return;
    }
  }
}

/// Puts a tree under another pointer.
void reroot(Node& node, const Origin& origin) {
  node.set_origin(origin);
  for (std::size_t i = 0; i < node.items().size(); ++i)
    reroot(node.items()[i], {origin.file, origin.pointer + "/" + std::to_string(i)});
  for (const auto& [key, value] : node.members()) reroot(*node.find(key), node.origin_of(key));
}

Node parse_value(std::string_view text, const Origin& origin) {
  const std::string owned(text);
  Node value;
  if (nlohmann::json::accept(owned)) {
    value = parse_json(owned, origin.file);
  } else {
    value = Node::string(owned);
  }
  reroot(value, origin);
  return value;
}

}  // namespace

Node::Node() = default;
Node::~Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;

Node Node::boolean(bool value) {
  Node node;
  node.kind_ = Kind::boolean;
  node.integer_ = value ? 1 : 0;
  return node;
}
Node Node::integer(std::int64_t value) {
  Node node;
  node.kind_ = Kind::integer;
  node.integer_ = value;
  return node;
}
Node Node::real(double value) {
  Node node;
  node.kind_ = Kind::real;
  node.real_ = value;
  return node;
}
Node Node::string(std::string value) {
  Node node;
  node.kind_ = Kind::string;
  node.text_ = std::move(value);
  return node;
}
Node Node::array() {
  Node node;
  node.kind_ = Kind::array;
  return node;
}
Node Node::object() {
  Node node;
  node.kind_ = Kind::object;
  return node;
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : members_)
    if (name == key) return &value;
  return nullptr;
}
Node* Node::find(std::string_view key) {
  return const_cast<Node*>(std::as_const(*this).find(key));
}

const Node* Node::at(std::string_view dotted) const {
  const auto dot = dotted.find('.');
  const Node* child = find(dotted.substr(0, dot));
  return child == nullptr || dot == std::string_view::npos ? child : child->at(dotted.substr(dot + 1));
}

Node& Node::set(std::string key, Node value) {
  if (Node* same = find(key)) return *same = std::move(value);
  members_.emplace_back(std::move(key), std::move(value));
  return members_.back().second;
}

Node& Node::add(std::string key, Node value) {
  members_.emplace_back(std::move(key), std::move(value));
  return members_.back().second;
}

void Node::erase(std::string_view key) {
  std::erase_if(members_, [&](const auto& member) { return member.first == key; });
}

Origin Node::origin_of(std::string_view key) const {
  return {origin_.file, origin_.pointer + "/" + escape_pointer(key)};
}

Origin Node::origin_at(std::string_view dotted) const {
  const auto dot = dotted.find('.');
  const std::string_view key = dotted.substr(0, dot);
  Node missing;
  missing.origin_ = origin_of(key);
  const Node* child = find(key);
  if (child == nullptr) child = &missing;
  return dot == std::string_view::npos ? child->origin_ : child->origin_at(dotted.substr(dot + 1));
}

std::string Node::shown() const {
  switch (kind_) {
    case Kind::array:
      return "an array";
    case Kind::object:
      return "an object";
    default:
      return dump();
  }
}

std::string Node::dump(int indent) const {
  std::string out;
  dump_to(*this, out, indent, 0);
  return out;
}

Node parse_json(std::string_view text, const std::string& file) {
  const std::string strict = without_last_commas(text);
  Builder builder(file, text);
  const bool ok = nlohmann::json::sax_parse(strict.begin(), strict.end(), &builder,
                                            nlohmann::json::input_format_t::json, true, true);
  builder.faults.throw_if_any();
  if (!ok) throw_fault({file, ""}, "expected JSON nested less than 200 deep");
  return std::move(builder.root);
}

void merge_over(Node& below, const Node& above) {
  if (!below.is_object() || !above.is_object()) {
    below = above;
    return;
  }
  below.set_origin(above.origin());
  std::unordered_map<std::string, std::size_t> known;  // where what is below stands, so that large ones merge fast
  for (const auto& [key, value] : below.members()) known.emplace(key, known.size());
  for (const auto& [key, value] : above.members()) {
    if (const auto found = known.find(key); found != known.end())
      merge_over(below.member(found->second), value);
    else
      below.add(key, value);
  }
}

Node read_json(const std::filesystem::path& path) {
  if (path == "-") return parse_json(read_all(std::cin, "-"), "-");
  return parse_json(read_whole(path, "JSON file"), path.string());
}

Node read_config(const std::filesystem::path& path, std::span<const std::string> assignments) {
  return read_config(read_json(path.lexically_normal()), assignments);
}

Node read_config(Node document, std::span<const std::string> assignments) {
  Bases bases;
  const std::string name = document.origin().file;
  Node root = with_bases(std::move(document), name, bases);
  for (const std::string& assignment : assignments) assign(root, assignment);
  return root;
}

namespace {

/// JSON pointer of a dotted name.
std::string pointer_of(std::string_view name) {
  std::string pointer;
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t dot = std::min(name.find('.', from), name.size());
    pointer += "/" + escape_pointer(name.substr(from, dot - from));
    from = dot + 1;
  }
  return pointer;
}

/// The value named "a.b.0.c", for writing to it. Objects that are missing on the way are made, with the origin that
/// `made_at` gives their pointer; what cannot be a way is a fault where `fault_at` says.
template <class FaultAt, class MadeAt>
Node& reach(Node& root, std::string_view name, FaultAt fault_at, MadeAt made_at) {
  Node* node = &root;
  std::string pointer;
  while (true) {
    const auto dot = name.find('.');
    const std::string key(name.substr(0, dot));
    if (key.empty()) throw_fault(fault_at(std::string{}), "expected a name between the dots");
    pointer += "/" + escape_pointer(key);
    const bool last = dot == std::string_view::npos;
    if (node->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc{} || *end != '\0' || index >= node->items().size())
        throw_fault(fault_at(pointer), fmt::format("expected an index below {}, got '{}'", node->items().size(), key));
      node = &node->items()[index];
    } else {
      if (!node->is_object())
        throw_fault(fault_at(pointer), fmt::format("expected an object to set '{}' in, got {}", key, node->shown()));
      Node* child = node->find(key);
      if (child == nullptr) {
        Node fresh = last ? Node{} : Node::object();
        fresh.set_origin(made_at(pointer));
        child = &node->set(key, std::move(fresh));
      }
      node = child;
    }
    if (last) return *node;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

void assign(Node& root, std::string_view assignment) {
  const auto equals = assignment.find('=');
  const std::string shown = fmt::format("--set {}", assignment);
  if (equals == std::string_view::npos || equals == 0)
    throw_fault({shown, ""}, "expected name=value, e.g. workload.rate_scale=2");
  const auto made_at = [](const std::string& pointer) { return Origin{"--set", pointer}; };
  const std::string_view name = assignment.substr(0, equals);
  Node& node = reach(
      root, name,
      [&](const std::string& pointer) {
        return Origin{shown, pointer};
      },
      made_at);
  node = parse_value(assignment.substr(equals + 1), {"--set", pointer_of(name)});
}

void assign(Node& root, std::string_view name, const Node& value) {
  const auto here = [&](const std::string&) { return value.origin(); };
  reach(root, name, here, here) = value;
}

std::filesystem::path folder_of(const Origin& origin) {
  if (origin.file.starts_with("--set")) return std::filesystem::current_path();
  return std::filesystem::path(origin.file).parent_path();
}

std::uint64_t hash_text(std::string_view text, std::uint64_t hash) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace orrery::sim
