// `orrery serve DIR`: hands a folder of runs and studies to the Python package that serves it to a browser.
#include <filesystem>
#include <memory>

#include "experiments/base/experiment.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;

struct ServeOptions {
  std::string folder = ".", host;
  int port = 8080, parallel = 1;
  bool beyond = false, read_only = false, json = false, quiet = false;
};

int serve(const ServeOptions& options) {
  std::vector<std::string> arguments{options.folder,
                                     "--port",
                                     std::to_string(options.port),
                                     "--parallel",
                                     std::to_string(options.parallel),
                                     "--command",
                                     fs::read_symlink("/proc/self/exe").string(),
                                     "--home",
                                     experiments::home_folder().string()};
  if (!options.host.empty()) arguments.insert(arguments.end(), {"--host", options.host});
  if (options.beyond) arguments.push_back("--open-beyond-loopback");
  if (options.read_only) arguments.push_back("--read-only");
  if (options.json) arguments.push_back("--json");
  if (options.quiet) arguments.push_back("--quiet");
  return become_python_tool("orrery_serve", arguments);
}

}  // namespace

void add_serve(CLI::App& app, Action& action) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* command =
      app.add_subcommand("serve", "Show the runs and studies of a folder in a browser, and try variants");
  command->add_option("DIR", options->folder, "Folder of runs and studies, nested ones included (default: .)");
  command->add_option("--port", options->port, "TCP port (0: any free one)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--host", options->host, "Address to listen on (default: 127.0.0.1 and ::1)");
  command->add_flag("--open-beyond-loopback", options->beyond,
                    "Allow a --host that other machines reach; whoever knows the printed address may read and run");
  command->add_option("--parallel", options->parallel, "Parallel runs; further ones wait in a queue")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_flag("--read-only", options->read_only, "Show results only: no runs can be started from the browser");
  command->add_flag("--json", options->json, "Print the address as a line of JSON");
  command->add_flag("--quiet", options->quiet, "Show no notes on stderr");
  command->callback([options, &action] { action = [options](const Systems&) { return serve(*options); }; });
}

}  // namespace orrery::tools
