// Arguments of other programs: words of a command line or a file, by name; what is read of them, and what is not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/document.hpp"

namespace orrery::experiments {

/// Arguments of a program by name, with underscores.
using EngineArguments = std::map<std::string, sim::Node>;

struct ImportedConfig {
  sim::Node config;  ///< of a serving experiment (without a workload unless a trace was given), or training
  std::vector<std::string> notes;    ///< what was assumed
  std::vector<std::string> ignored;  ///< "name=value": arguments that nothing here stands for
};

/// A word as JSON where it is some, else as text.
sim::Node argument_value(const std::string& word);
std::string with_underscores(std::string name);

/// Words of a training program's command line, from its first `--NAME` on; what starts it (torchrun, a script) may
/// stand before. Further words of an argument belong to it.
EngineArguments launch_arguments(const std::vector<std::string>& words);
/// A JSON file: members of nested objects by their path, "zero_optimization.stage". Throws sim::ConfigError.
EngineArguments launch_arguments(const std::filesystem::path& file);
/// Those of a file (none where it is empty), and over them those of words.
EngineArguments launch_arguments(const std::string& file, const std::vector<std::string>& words);

/// Hands out arguments, and remembers those that nobody asked for.
class ArgumentReader {
 public:
  explicit ArgumentReader(const EngineArguments& arguments) : arguments_(arguments) {}

  /// Null for one that is absent or null.
  const sim::Node* find(const std::string& name);
  /// A whole number, "32k" too; what is none is ignored.
  std::int64_t number(const std::string& name, std::int64_t fallback);
  /// `no_NAME` is false.
  bool flag(const std::string& name, bool fallback);
  std::string text(const std::string& name);
  /// Asks for arguments that change nothing here, such as paths.
  void skip(std::initializer_list<const char*> names);

  /// Lists what has no counterpart.
  void ignore(const std::string& name, const sim::Node& value);
  void ignore(const std::string& name, const std::string& value);
  void note(std::string text) { out_.notes.push_back(std::move(text)); }
  /// The config with notes, and with whatever nobody asked for.
  ImportedConfig finish(sim::Node config);

 private:
  const EngineArguments& arguments_;
  ImportedConfig out_;
  std::set<std::string> used_;
};

}  // namespace orrery::experiments
