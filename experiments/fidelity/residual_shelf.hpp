// Residuals of the catalog and of users' files, laid over predictions.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/fidelity/table_kind.hpp"

namespace orrery::experiments {

class ResidualShelf {
 public:
  /// Reads `files`, which stand before those of `folder` (one a part, `<part>.json`; it need not be there). Throws
  /// sim::ConfigError with the faults of the first faulty file.
  ResidualShelf(std::filesystem::path folder, const std::vector<std::string>& files);

  /// Multiplies predictions by what was learned of their parts, libraries and sizes; other rows stay.
  /// Throws sim::ConfigError for a residual of other constants than the part on `parts` has.
  void apply(const PartShelf& parts, Predictions::Column& column) const;

 private:
  const hw::Residual* of(const PartShelf& parts, const std::string& part) const;

  std::filesystem::path folder_;
  std::map<std::string, hw::Residual> given_;
  mutable std::map<std::string, std::optional<hw::Residual>> read_;  ///< so far; nothing: the part has none
};

}  // namespace orrery::experiments
