// `orrery man`: the manual page, from the options that the commands declare. What an installation runs, and hidden from
// the help.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "experiments/base/experiment.hpp"
#include "tools/orrery/command_line.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

/// Text for roff: no character of it is a request or a hyphen that may be changed.
std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else {
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

/// The options of a command, a tagged paragraph each; those that every command has stand once, at the program.
void print_options(const CLI::App& app, bool at_program) {
  for (const bool positional : {true, false})
    for (const CLI::Option* option : shown_options(app, positional)) {
      const std::string name = option->get_name();
      if (!at_program && (name == "--help" || name == "--plugin")) continue;
      std::string head = fmt::format("\\fB{}\\fR", roff(option->get_name(positional, !positional)));
      if (!positional && option->get_items_expected_max() > 0)
        head += fmt::format(" \\fI{}\\fR", roff(option->get_type_name()));
      fmt::print(".TP\n{}\n{}\n", head, roff(option->get_description()));
    }
}

void print_command(const CLI::App& command, const std::string& path) {
  const std::string name = path + " " + command.get_name();
  const auto nested = shown_commands(command);
  for (const CLI::App* inner : nested) print_command(*inner, name);
  if (!nested.empty()) return;
  std::string usage = name + " [options]";
  for (const CLI::Option* option : shown_options(command, true)) {
    const std::string word = option->get_name(true) + (option->get_items_expected_max() > 1 ? " ..." : "");
    usage += option->get_required() ? " " + word : " [" + word + "]";
  }
  fmt::print(".SS {}\n{}.\n", roff(usage), roff(command.get_description()));
  print_options(command, false);
}

int manual(const CLI::App& app) {
  fmt::print(".TH ORRERY 1 \"\" \"Orrery {}\" \"User Commands\"\n", experiments::version());
  fmt::print(".SH NAME\norrery \\- {}\n", "discrete\\-event simulator and design\\-space explorer for AI systems");
  fmt::print(".SH SYNOPSIS\n.B orrery\n.I command\n.RI [ options ]\n");
  fmt::print(".SH DESCRIPTION\n{}\nData goes to standard output, everything else to standard error.\n",
             roff(app.get_description()));
  fmt::print(".SH OPTIONS\nOf every command, and before it:\n");
  print_options(app, true);
  fmt::print(".SH COMMANDS\n");
  for (const CLI::App* command : shown_commands(app)) print_command(*command, "orrery");
  fmt::print(".SH EXIT CODES AND ENVIRONMENT\n.nf\n{}\n.fi\n", roff(app.get_footer()));
  fmt::print(".SH FILES\n.TP\nshare/orrery\nCatalogs of parts and models, studies, sample traces, schemas\n");
  return 0;
}

}  // namespace

void add_manual(CLI::App& app, Action& action) {
  CLI::App* man = app.add_subcommand("man", "Print the manual page (roff)")->group("");
  man->callback([&app, &action] { action = [&app](const Systems&) { return manual(app); }; });
}

}  // namespace orrery::tools
