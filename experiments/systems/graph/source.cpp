#include "experiments/systems/graph/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace orrery::experiments::graph {
namespace {

bool is_file(const std::string& source) {
  return source.find('.') != std::string::npos || source.find('/') != std::string::npos ||
         std::filesystem::exists(source);
}

models::Imported built(const models::BuilderRegistry& registry, const std::string& source, const sim::Node& params) {
  const std::vector<std::string> names = registry.names();
  if (std::find(names.begin(), names.end(), source) == names.end())
    sim::throw_fault({"graph", ""}, fmt::format("no builder is called '{}', and it is no file", source),
                     sim::name_hint(source, names));
  sim::Faults faults;
  const auto choice = registry.prepare(source, &params, {"--set", ""}, faults);
  faults.throw_if_any();
  return {choice.make()->build(), {}, {}};
}

models::Imported loaded(const models::BuilderRegistry& builders, const std::string& source, const std::string& format,
                        const sim::Node& params) {
  if (!is_file(source)) return built(builders, source, params);
  if (!params.members().empty())
    sim::throw_fault({"--set", ""}, "expected the name of a builder: a file has no parameters");
  return models::import_graph(source, format);
}

}  // namespace

models::Imported load_graph(const models::BuilderRegistry& builders, const std::string& source,
                            const std::string& format, const sim::Node& params) {
  models::Imported imported = [&] {
    try {
      return loaded(builders, source, format, params);
    } catch (const std::overflow_error& error) {
      sim::throw_fault({source, ""}, error.what());
    }
  }();
  const std::vector<std::string> faults = models::verify(imported.graph);
  if (!faults.empty()) sim::throw_fault({source, ""}, faults.front());
  return imported;
}

models::Bindings bind_sizes(const models::OpGraph& graph,
                            const std::vector<std::pair<std::string, std::string>>& sizes) {
  std::vector<std::string> names;
  const std::vector<models::Symbol> symbols = graph.symbols();
  for (const models::Symbol symbol : symbols) names.push_back(symbol.name());
  models::Bindings bindings;
  sim::Faults faults;
  for (const auto& [name, value] : sizes) {
    const std::string where = fmt::format("--bind {}{}{}", name, value.empty() ? "" : "=", value);
    const bool number =
        !value.empty() && value.size() < 16 && value.find_first_not_of("0123456789") == std::string::npos;
    if (std::find(names.begin(), names.end(), name) == names.end())
      faults.add({where, ""}, fmt::format("the graph has no dimension '{}'", name), sim::name_hint(name, names));
    else if (!number)
      faults.add({where, ""}, "expected dimension=size");
    else
      bindings.set(name, std::stoll(value));
  }
  for (const models::Symbol symbol : symbols)
    if (!sizes.empty() && faults.empty() && !bindings.find(symbol))
      faults.add({"--bind", ""}, fmt::format("no value for dimension '{}'", symbol.name()));
  faults.throw_if_any();
  return bindings;
}

}  // namespace orrery::experiments::graph
