// Measured tables in tests: the catalog's parts, and what a kind of table predicts for a text.
#pragma once

#include <string>

#include "experiments/base/experiment.hpp"
#include "experiments/fidelity/table_kind.hpp"

namespace orrery::experiments::test {

inline const PartShelf& shelf() {
  static const PartShelf parts(home_folder() / "hw/catalog");
  return parts;
}

/// What `kind` predicts for a table of this name and text.
inline Predictions predict(const TableKind& kind, const std::string& name, const std::string& text) {
  Predictions out;
  kind.predict(MeasuredTable::parse(text, name), shelf(), out);
  return out;
}

}  // namespace orrery::experiments::test
