// What main() does around the commands' own options: groups in the help, and what to say of words that no command
// knows.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace orrery::tools {

/// Puts the commands under headings, by what people want of them.
void group_commands(CLI::App& app);

/// A line for every option that the chosen command does not have: the nearest that it has, and commands that have it;
/// one for a word too many. For a parse that ended in CLI::ExtrasError.
std::vector<std::string> unknown_words(const CLI::App& app);

/// The innermost command of `words` and how many of them led to it.
struct Reached {
  const CLI::App* command;
  std::size_t words;
};
Reached reached_command(const CLI::App& app, const std::vector<std::string>& words);

/// Commands, and options, that the help shows.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);
std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional);
/// "--set", "--out", …
std::vector<std::string> long_options(const CLI::App& app);

}  // namespace orrery::tools
