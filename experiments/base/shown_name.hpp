// The name of a model or part in messages and summaries.
#pragma once

#include <filesystem>
#include <string>

namespace orrery::experiments {

/// "llama-2-7b" of "catalog:llama-2-7b" and of a file of that name; of a config.json its folder.
inline std::string shown_name(const std::string& reference) {
  if (const auto colon = reference.find(':'); colon != std::string::npos) return reference.substr(colon + 1);
  const std::filesystem::path path(reference);
  return path.stem() == "config" && path.has_parent_path() ? path.parent_path().filename().string()
                                                           : path.stem().string();
}

}  // namespace orrery::experiments
