// `orrery fidelity DIR`: errors of the shipped constants against the measured tables of a folder.
#include <fmt/format.h>

#include <memory>

#include "experiments/experiment.hpp"
#include "experiments/fidelity/fidelity.hpp"
#include "tools/orrery/commands.hpp"

namespace orrery::tools {

void add_fidelity(CLI::App& app, Action& action) {
  auto folder = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("fidelity", "Compare what the catalog's parts predict with measured tables");
  command->add_option("DIR", *folder, "Folder of tables: gemm/, attention/, collectives/ … as in docs/fidelity.md")
      ->required();
  command->add_flag("--json", *json, "As JSON; errors are fractions");
  command->callback([folder, json, &action] {
    action = [folder, json] {
      const experiments::PartShelf parts(experiments::home_folder() / "hw/catalog");
      const auto lines = experiments::measure_fidelity(*folder, parts);
      if (*json) {
        fmt::print("{}\n", experiments::fidelity_json(lines).dump(2));
      } else {
        fmt::print("{}", experiments::fidelity_text(lines));
      }
      return 0;
    };
  });
}

}  // namespace orrery::tools
