// A serving config in a few lines for people, to stand above its answer: model, machine, plan, policies, targets.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/base/document.hpp"

namespace orrery::experiments {

/// {"model", "llama-2-7b, fp16"}, … from the resolved config of a serving system, or of a question to one.
std::vector<std::pair<std::string, std::string>> restate_serving(const sim::Node& resolved);

}  // namespace orrery::experiments
