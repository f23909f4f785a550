// The operators of a rank (models/transformer/transformer.hpp says what they are).
#pragma once

#include "models/transformer/transformer.hpp"

namespace orrery::models {

/// Fills embedding, kinds, head and mtp of a transformer whose other members are set.
void build_ops(Transformer& t);

}  // namespace orrery::models
