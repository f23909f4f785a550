// Configuration documents: JSON whose every value remembers the file and pointer it came from.
//
// This is the only place where JSON text becomes values. A document is read with its `base` documents merged below it
// (objects merge key by key, everything else replaces), then `--set a.b.c=value` assignments are laid on top. Keys keep
// the order of the file. A key given twice is a fault. Components never see a Node: they get parameter structs, which
// sim/base/params.hpp fills from one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/fault.hpp"

namespace orrery::sim {

/// One JSON value with its origin.
class Node {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, real, string, array, object };

  // Defined once: trees of nodes are copied and freed all over, and in headers each source would compile that anew.
  Node();
  ~Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  static Node boolean(bool value);
  static Node integer(std::int64_t value);
  static Node real(double value);
  static Node string(std::string value);
  static Node array();
  static Node object();

  Kind kind() const { return kind_; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_number() const { return kind_ == Kind::integer || kind_ == Kind::real; }
  bool is_null() const { return kind_ == Kind::null; }

  bool as_boolean() const { return integer_ != 0; }
  std::int64_t as_integer() const { return integer_; }
  /// Value of an integer or a real.
  double as_number() const { return kind_ == Kind::integer ? static_cast<double>(integer_) : real_; }
  const std::string& as_string() const { return text_; }

  const std::vector<Node>& items() const { return items_; }
  std::vector<Node>& items() { return items_; }
  const std::vector<std::pair<std::string, Node>>& members() const { return members_; }
  Node& member(std::size_t place) { return members_[place].second; }
  /// The member named `key`, or null.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  /// The value at "a.b.c", or null where a name on the way is missing.
  const Node* at(std::string_view dotted) const;
  /// Adds or replaces a member; returns it.
  Node& set(std::string key, Node value);
  void push(Node value) { items_.push_back(std::move(value)); }
  /// Adds a member that is known not to be there, without looking for it: for objects of many keys.
  Node& add(std::string key, Node value);
  /// Removes a member if it is there.
  void erase(std::string_view key);

  const Origin& origin() const { return origin_; }
  void set_origin(Origin origin) { origin_ = std::move(origin); }
  /// Origin of a member that is not there: this object's file, and the pointer it would have.
  Origin origin_of(std::string_view key) const;
  /// Origin of the value at "a.b.c"; where a name on the way is missing, the one that the value would have.
  Origin origin_at(std::string_view dotted) const;

  /// What this value is, for messages: `"fast"`, `3`, `an object`.
  std::string shown() const;
  /// Compact JSON (indent < 0) or indented, keys in order; shortest numbers that read back the same.
  std::string dump(int indent = -1) const;

 private:
  Kind kind_ = Kind::null;
  std::int64_t integer_ = 0;
  double real_ = 0;
  std::string text_;
  std::vector<Node> items_;
  std::vector<std::pair<std::string, Node>> members_;
  Origin origin_;
};

/// Parses JSON text, less than 200 deep and with at most most_json_values() values (input_limits.hpp), in which
/// comments (// and /* */) and a comma behind the last item may stand. Syntax errors, duplicate keys and integers past
/// 64 bits throw ConfigError with line and column.
Node parse_json(std::string_view text, const std::string& file);
/// Reads one JSON file (no `base`); "-" is standard input, which can be read once. Throws ConfigError if it cannot be
/// read or parsed.
Node read_json(const std::filesystem::path& path);
/// Reads a config: the file, its `base` (a path or a list, relative to the file that names it, merged in order below
/// it) and the assignments "a.b.c=value" (the value is JSON, or else a string). Throws ConfigError.
Node read_config(const std::filesystem::path& path, std::span<const std::string> assignments = {});
/// The same of a document that is read, before its `base` is laid below it.
Node read_config(Node document, std::span<const std::string> assignments = {});
/// Lays `above` over `below`: objects merge key by key, everything else replaces.
void merge_over(Node& below, const Node& above);
/// Lays one assignment over `root`; array elements are named by index. Throws ConfigError.
void assign(Node& root, std::string_view assignment);
/// The same for a value at hand, which keeps its origin; objects made on the way get it too. Throws ConfigError there.
void assign(Node& root, std::string_view name, const Node& value);

/// Folder of the file a value came from: what a relative path in it is relative to.
std::filesystem::path folder_of(const Origin& origin);

/// 64-bit FNV-1a of text, continued from `hash`: names runs and streams; no security is meant.
std::uint64_t hash_text(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325ULL);

}  // namespace orrery::sim
