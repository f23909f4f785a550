#include "experiments/base/experiment.hpp"

#include "sim/base/home.hpp"

namespace orrery::experiments {

bool Outcome::feasible() const {
  const sim::Node* status = summary.find("status");
  return status != nullptr && status->is_string() && status->as_string() == "ok";
}

std::filesystem::path home_folder() {
  return sim::home_folder();
}

std::string_view version() {
  return ORRERY_VERSION;
}

}  // namespace orrery::experiments
