// Figures of summary.json by path.
//
// A path is names between dots: members of objects, indices of arrays. A name may itself have dots ("llama-3.2-1b"):
// at every object the longest member that the rest starts with is taken first. `*` is the only member there is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/base/document.hpp"

namespace orrery::experiments::claims {

/// How far a look-up got.
struct FigureSearch {
  const sim::Node* found = nullptr;
  std::string reached;               ///< path up to where nothing fits
  std::string missing;               ///< what was asked for there
  std::vector<std::string> members;  ///< what there is instead
};

FigureSearch find_figure(const sim::Node& summary, std::string_view path);

}  // namespace orrery::experiments::claims
