#include "models/builders/builder.hpp"

namespace orrery::models {

// One line a builder: each is declared and called here, and defined in its own file.
void add_bert(BuilderRegistry& registry);
void add_decoder(BuilderRegistry& registry, const std::filesystem::path& catalog);
void add_densenet(BuilderRegistry& registry);
void add_fno(BuilderRegistry& registry);
void add_gnn(BuilderRegistry& registry);
void add_googlenet(BuilderRegistry& registry);
void add_gpt2(BuilderRegistry& registry);
void add_inception_v3(BuilderRegistry& registry);
void add_mlp(BuilderRegistry& registry);
void add_mobilenet(BuilderRegistry& registry);
void add_resnet(BuilderRegistry& registry);
void add_rl_step(BuilderRegistry& registry);
void add_unet(BuilderRegistry& registry);
void add_vit(BuilderRegistry& registry);

void register_builders(BuilderRegistry& registry, const std::filesystem::path& catalog) {
  add_bert(registry);
  add_decoder(registry, catalog);
  add_densenet(registry);
  add_fno(registry);
  add_gnn(registry);
  add_googlenet(registry);
  add_gpt2(registry);
  add_inception_v3(registry);
  add_mlp(registry);
  add_mobilenet(registry);
  add_resnet(registry);
  add_rl_step(registry);
  add_unet(registry);
  add_vit(registry);
}

}  // namespace orrery::models
