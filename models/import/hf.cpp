// Configs of Hugging Face models as graphs: what the builder `decoder` makes of them.
#include "models/builders/builder.hpp"
#include "models/import/importer.hpp"
#include "models/transformer/hf_config.hpp"

namespace orrery::models {

Imported import_hf(const std::filesystem::path& file) {
  // The config first by itself: its faults have places in it.
  sim::Faults faults;
  const ModelConfig config = parse_hf_config(sim::read_json(file), faults);
  faults.throw_if_any();
  BuilderRegistry registry("builder");
  register_builders(registry);
  sim::Node params = sim::Node::object();
  params.set("config", sim::Node::string(file.string()));
  const auto choice = registry.prepare("decoder", &params, {file.string(), ""}, faults);
  faults.throw_if_any();
  Imported out;
  out.graph = choice.make()->build();
  out.graph.name = file.stem().string();
  for (const std::string& key : config.ignored_keys) out.notes.push_back("unknown key '" + key + "' was skipped");
  return out;
}

}  // namespace orrery::models
