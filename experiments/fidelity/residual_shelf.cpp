#include "experiments/fidelity/residual_shelf.hpp"

#include <fmt/format.h>

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

hw::Residual read_residual(const fs::path& file) {
  sim::Faults faults;
  hw::Residual residual = hw::parse_residual(sim::read_json(file), faults);
  faults.throw_if_any();
  return residual;
}

}  // namespace

ResidualShelf::ResidualShelf(fs::path folder, const std::vector<std::string>& files) : folder_(std::move(folder)) {
  for (const std::string& file : files) {
    hw::Residual residual = read_residual(file);
    const std::string part = residual.part;
    given_[part] = std::move(residual);
  }
}

const hw::Residual* ResidualShelf::of(const PartShelf& parts, const std::string& part) const {
  auto at = read_.find(part);
  if (at == read_.end()) {
    std::optional<hw::Residual> residual;
    const auto given = given_.find(part);
    const fs::path file = folder_ / (part + ".json");
    if (given != given_.end()) {
      residual = given->second;
    } else if (fs::exists(file)) {
      residual = read_residual(file);
    }
    const auto* entry = parts.find<hw::GpuParams>(part);
    if (residual && entry != nullptr && residual->model != hw::model_fingerprint(entry->part))
      sim::throw_fault({"residual of " + part, "/model"}, "it was fitted beside other constants of the part",
                       fmt::format("`orrery calibrate {} --residual` makes it anew", part));
    at = read_.emplace(part, std::move(residual)).first;
  }
  return at->second ? &*at->second : nullptr;
}

void ResidualShelf::apply(const PartShelf& parts, Predictions::Column& column) const {
  for (Predictions::Row& row : column.rows) {
    if (!row.learnable) continue;
    const hw::Residual* residual = of(parts, row.learnable->part);
    if (residual == nullptr) continue;
    const hw::ResidualBlock* block = residual->block(row.learnable->query.kind, row.learnable->library);
    if (block != nullptr) row.predicted *= block->factor(row.learnable->query).value_or(1);
  }
}

}  // namespace orrery::experiments
