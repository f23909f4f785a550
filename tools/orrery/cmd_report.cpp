// `orrery report RUN`: hands a run folder to the Python package that draws it.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "experiments/experiment.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {
namespace {

struct ReportOptions {
  std::string run, out, png;
};

/// Runs the program and gives its exit code back; 1 if it could not be started.
int execute(const std::vector<std::string>& arguments) {
  std::vector<char*> raw;
  for (const std::string& argument : arguments) raw.push_back(const_cast<char*>(argument.c_str()));
  raw.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    execv(raw[0], raw.data());
    _exit(127);
  }
  int status = 0;
  if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return 1;
  return WEXITSTATUS(status);
}

int report(const ReportOptions& options) {
  // Debian's interpreter is the one that sees Debian's modules; another python3 may come first on PATH.
  const char* chosen = std::getenv("ORRERY_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "/usr/bin/python3";
  if (!std::filesystem::exists(python))
    sim::throw_fault({python, ""}, "expected a Python interpreter, found none",
                     "set ORRERY_PYTHON, or run tools/setup");
  std::vector<std::string> arguments{python, (experiments::home_folder() / "tools/python/orrery_report").string(),
                                     options.run};
  if (!options.out.empty()) arguments.insert(arguments.end(), {"--out", options.out});
  if (!options.png.empty()) arguments.insert(arguments.end(), {"--png", options.png});
  return execute(arguments);
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Write an interactive HTML report and PNG plots of a run");
  command->add_option("RUN", options->run, "Folder of a run")->required();
  command->add_option("--out", options->out, "The HTML file (default RUN/report.html)");
  command->add_option("--png", options->png, "Folder for PNG plots (default RUN/png; \"no\" for none)");
  command->callback([options, &action] { action = [options] { return report(*options); }; });
}

}  // namespace orrery::tools
