// `orrery doctor`: whether what the program needs is there and whole, and which optional things are.
#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "experiments/all/systems.hpp"
#include "experiments/base/catalog.hpp"
#include "experiments/base/experiment.hpp"
#include "policies/plugin_host.hpp"
#include "sim/base/name_match.hpp"
#include "sim/child_process.hpp"
#include "tools/orrery/commands.hpp"
#include "tools/orrery/python_tool.hpp"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;

/// Lines of "ok" and of what is not, and whether something that every user needs is missing.
class Findings {
 public:
  void ok(const std::string& what, const std::string& text) { line("ok", what, text); }
  void optional(const std::string& what, const std::string& text) { line("-", what, text); }
  void fault(const std::string& what, const std::string& text) {
    line("FAULT", what, text);
    whole_ = false;
  }
  bool whole() const { return whole_; }

 private:
  static void line(const char* state, const std::string& what, const std::string& text) {
    fmt::print("{:<6} {:<10} {}\n", state, what, text);
  }
  bool whole_ = true;
};

/// Reads every entry of a catalog; faults of each are told.
void check_entries(Findings& findings, const std::string& what, const std::vector<std::string>& names,
                   const std::function<void(const std::string&)>& read) {
  std::size_t good = 0;
  for (const std::string& name : names) {
    try {
      read(name);
      ++good;
    } catch (const sim::ConfigError& error) {
      findings.fault(what, error.faults().front().text());
    }
  }
  if (names.empty())
    findings.fault(what, fmt::format("none under '{}'; set ORRERY_HOME", experiments::home_folder().string()));
  else if (good == names.size())
    findings.ok(what, fmt::format("{} in the catalog, all can be read", good));
}

struct Module {
  const char *name, *what, *package;
};

int doctor() {
  Findings findings;
  findings.ok("orrery",
              fmt::format("version {}, data under {}", experiments::version(), experiments::home_folder().string()));
  check_entries(findings, "parts", experiments::part_names(),
                [](const std::string& name) { (void)experiments::part_kind(name); });
  check_entries(findings, "models", experiments::model_names(), [](const std::string& name) {
    (void)models::load_model("catalog:" + name, experiments::home_folder() / "models/catalog");
  });
  const fs::path studies = experiments::home_folder() / "experiments/studies";
  std::size_t readable = 0;
  for (const std::string& name : sim::catalog_names(studies)) {
    try {
      (void)sim::read_json(studies / (name + ".json"));
      ++readable;
    } catch (const sim::ConfigError& error) {
      findings.fault("studies", error.faults().front().text());
    }
  }
  findings.ok("studies", fmt::format("{} ship and can be read (`orrery validate NAME` looks through one)", readable));
  for (const policies::LoadedPlugin& plugin : policies::loaded_plugins()) findings.ok("plugin", plugin.file.string());
  const std::string python = python_interpreter();
  if (!fs::exists(python)) {
    findings.optional("python", fmt::format("none at {}: no reports, no explorer (tools/setup report)", python));
  } else {
    findings.ok("python", python);
    for (const Module& module : {Module{"numpy", "reports and plots", "python3-numpy"},
                                 {"pandas", "tables", "python3-pandas"},
                                 {"matplotlib", "plots", "python3-matplotlib"},
                                 {"plotly", "reports", "python3-plotly"},
                                 {"optuna", "one of the search drivers", "python3-optuna"},
                                 {"distributed", "sweeps on a cluster", "python3-distributed"}}) {
      if (python_has(module.name))
        findings.ok("python", module.name);
      else
        findings.optional("python", fmt::format("no {}: {} want {}", module.name, module.what, module.package));
    }
  }
  if (const auto cbc = sim::find_program("cbc"))
    findings.ok("solver", cbc->string());
  else
    findings.optional("solver", "no cbc: planners by mixed-integer programs want coinor-cbc");
  fmt::print("{}\n",
             findings.whole() ? "all that is needed is there" : "something that is needed is missing or damaged");
  return findings.whole() ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("doctor", "Check catalog, studies, plugins, Python packages and solvers");
  command->callback([&action] { action = [](const Systems&) { return doctor(); }; });
}

}  // namespace orrery::tools
