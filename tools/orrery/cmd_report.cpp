// `orrery report RUN|STORE…`: hands runs and stores of studies to the Python package that draws them.
#include <filesystem>
#include <memory>

#include "tools/orrery/commands.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

struct ReportOptions {
  std::vector<std::string> things;
  std::string out, png, against;
  bool json = false;
};

int report(const ReportOptions& options) {
  std::vector<std::string> arguments = options.things;
  if (!options.out.empty()) arguments.insert(arguments.end(), {"--out", options.out});
  if (!options.png.empty()) arguments.insert(arguments.end(), {"--png", options.png});
  if (!options.against.empty()) arguments.insert(arguments.end(), {"--against", options.against});
  if (options.json) arguments.push_back("--json");
  // It asks this program back what the points of a study tell.
  arguments.insert(arguments.end(), {"--command", std::filesystem::read_symlink("/proc/self/exe").string()});
  return become_python_tool("orrery_report", arguments);
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", "Write an interactive HTML report of runs, or of studies");
  command
      ->add_option("RUN|STORE", options->things, "Folders of runs, or stores of studies; several of them are compared")
      ->required();
  command->add_option(
      "--out", options->out,
      "HTML file to write (default: RUN/report.html, STORE.html beside the store, or compare.html for several)");
  command->add_option("--png", options->png, "Folder for PNG plots (default for one run: RUN/png; \"no\" for none)");
  command->add_option("--against", options->against,
                      "Instead, print the run beside this request log (CSV of a vLLM run, or JSON of its benchmark)");
  command->add_flag("--json", options->json, "With --against: print JSON");
  command->callback([options, &action] { action = [options](const Systems&) { return report(*options); }; });
}

}  // namespace orrery::tools
