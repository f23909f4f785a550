#include "tools/orrery/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/fault.hpp"
#include "sim/base/name_match.hpp"

namespace orrery::tools {
namespace {

struct Group {
  const char* heading;
  std::vector<const char*> commands;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all{
      {"Run and ask", {"run", "fits", "capacity", "slo", "plans", "goodput"}},
      {"Study", {"sweep", "search", "best", "analyse", "export", "evolve", "reproduce", "fidelity"}},
      {"Look", {"list", "describe", "report", "serve", "trace", "graph"}},
      {"Parts of a system", {"experts", "plan", "play", "progress", "train"}},
      {"Extend", {"validate", "schema", "import", "calibrate", "completion", "doctor"}}};
  return all;
}

/// Commands of the program that have an option, as a user would type them.
std::vector<std::string> commands_with(const CLI::App& app, const std::string& option, const CLI::App* except) {
  std::vector<std::string> found;
  for (const CLI::App* command : shown_commands(app)) {
    if (command == except) continue;
    const std::vector<std::string> options = long_options(*command);
    if (std::ranges::find(options, option) != options.end()) found.push_back(command->get_name());
  }
  return found;
}

std::string option_hint(const CLI::App& app, const CLI::App& command, const std::string& option) {
  const std::vector<std::string> own = long_options(command);
  const std::vector<std::string> near = sim::near_names(option, own);
  if (!near.empty()) return fmt::format(" ({})", sim::name_hint(option, own));
  const std::vector<std::string> others = commands_with(app, option, &command);
  if (!others.empty())
    return fmt::format(" (`orrery {}` {} it)", fmt::join(others, "`, `orrery "), others.size() == 1 ? "has" : "have");
  return fmt::format(" (`orrery {} --help` shows all)", command.get_name());
}

}  // namespace

void group_commands(CLI::App& app) {
  for (const Group& group : groups())
    for (const char* name : group.commands) app.get_subcommand(name)->group(group.heading);
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
  return app.get_options([&](const CLI::Option* option) {
    return option->get_positional() == positional && !option->get_group().empty();
  });
}

std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::Option* option : shown_options(app, false))
    for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
  return all;
}

Reached reached_command(const CLI::App& app, const std::vector<std::string>& words) {
  Reached reached{&app, 0};
  for (const std::string& word : words) {
    const auto inner = reached.command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (inner.empty()) break;
    reached = {inner.front(), reached.words + 1};
  }
  return reached;
}

std::vector<std::string> unknown_words(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string path = "orrery";
  while (true) {
    const auto chosen = command->get_subcommands([](const CLI::App* one) { return one->parsed(); });
    if (chosen.empty()) break;
    command = chosen.front();
    path += " " + command->get_name();
  }
  std::vector<std::string> lines;
  std::vector<std::string> words = app.remaining(true);
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
  const bool options = std::ranges::any_of(words, is_option);  // their values are left over too
  for (const std::string& word : words) {
    if (is_option(word)) {
      const std::string name = word.substr(0, word.find('='));
      lines.push_back(fmt::format("{}: unknown option '{}'{}", path, name, option_hint(app, *command, name)));
    } else if (!options) {
      lines.push_back(fmt::format("{}: expected nothing behind its arguments, got '{}'", path, word));
    }
  }
  return lines;
}

}  // namespace orrery::tools
