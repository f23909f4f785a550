#include "tools/orrery/plugin_option.hpp"

#include <cstdlib>

#include "policies/plugin_host.hpp"

namespace orrery::tools {

void add_plugin_option(CLI::App& app, std::vector<std::string>& files) {
  const auto keep = [&files](const std::vector<std::string>& given) {
    files.insert(files.end(), given.begin(), given.end());
  };
  app.add_option_function<std::vector<std::string>>("--plugin", keep,
                                                    "Load policies from a shared object (may be given several times)")
      ->type_name("FILE.so")
      ->allow_extra_args(false);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) add_plugin_option(*command, files);
}

void load_plugins(const std::vector<std::string>& files) {
  policies::load_environment_plugins();
  for (const std::string& file : files) (void)policies::load_plugin(file);
  std::string all;
  for (const policies::LoadedPlugin& loaded : policies::loaded_plugins())
    all += (all.empty() ? "" : ":") + loaded.file.string();
  if (!all.empty()) setenv(policies::kPluginVariable, all.c_str(), 1);
}

}  // namespace orrery::tools
