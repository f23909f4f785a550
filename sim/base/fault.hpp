// Faults of input: what is wrong, where, what was expected. All faults of a file are collected, then thrown at once as
// one ConfigError; main() prints a line a fault and exits with code 2.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::sim {

/// Where a value came from: a file and the JSON pointer inside it ("/hw/links/3/bandwidth"; "" is the root).
struct Origin {
  std::string file;
  std::string pointer;
};

/// One fault. As text: `file:/pointer: message (hint)`.
struct Fault {
  Origin where;
  std::string message;
  std::string hint;  ///< empty, or e.g. "did you mean 'token_budget'?"
  std::string text() const;
};

/// Thrown for faulty input of any kind; holds at least one fault.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Fault> faults);
  const std::vector<Fault>& faults() const { return faults_; }

 private:
  std::vector<Fault> faults_;
};

/// Collects faults while a document is read, so that all of them are reported at once.
class Faults {
 public:
  void add(const Origin& where, std::string message, std::string hint = {});
  /// Something that is no fault and that the user should know: "'h100' is taken as 'h100-sxm5-80gb'". Told once.
  void note(std::string text);
  const std::vector<std::string>& notes() const { return notes_; }
  bool empty() const { return faults_.empty(); }
  std::size_t size() const { return faults_.size(); }
  const std::vector<Fault>& all() const { return faults_; }
  /// Throws ConfigError if there is any fault.
  void throw_if_any() const;

 private:
  std::vector<Fault> faults_;
  std::vector<std::string> notes_;
};

/// Throws a ConfigError with one fault.
[[noreturn]] void throw_fault(Origin where, std::string message, std::string hint = {});

/// The name among `known` nearest to `name` in edit distance, if near enough to be a likely slip; empty otherwise.
/// Ties go to the name that sorts first.
std::string nearest_name(std::string_view name, std::span<const std::string> known);
/// All that are as near, sorted.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> known);
/// "did you mean 'x'?" (or several: sim/base/name_match.hpp), or "known: a, b, c" when nothing is near.
std::string name_hint(std::string_view name, std::vector<std::string> known);

}  // namespace orrery::sim
