#include "models/builders/builder.hpp"

namespace orrery::models {

// One line a builder: each is declared and called here, and defined in its own file.
void register_builders(BuilderRegistry& registry) {
  static_cast<void>(registry);
}

}  // namespace orrery::models
