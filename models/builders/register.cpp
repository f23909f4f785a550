#include "models/builders/builder.hpp"

namespace orrery::models {

// One line a builder: each is declared and called here, and defined in its own file.
void add_bert(BuilderRegistry& registry);
void add_decoder(BuilderRegistry& registry, const std::filesystem::path& catalog);
void add_gpt2(BuilderRegistry& registry);

void register_builders(BuilderRegistry& registry, const std::filesystem::path& catalog) {
  add_bert(registry);
  add_decoder(registry, catalog);
  add_gpt2(registry);
}

}  // namespace orrery::models
