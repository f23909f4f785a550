// Importers: graphs from files that other tools write.
//
// What a format says that the IR has no kind for becomes an op of kind `custom` that keeps its name, its shapes where
// the file has them, and its traffic; it is counted in `unmapped`, so that nothing is dropped in silence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/op_graph.hpp"

namespace orrery::models {

struct Imported {
  OpGraph graph;
  std::vector<std::pair<std::string, std::int64_t>> unmapped;  ///< foreign op and how often, by name
  std::vector<std::string> notes;                              ///< for the user
};

/// All throw sim::ConfigError: one line a fault, with the place in the file.
Imported import_onnx(const std::filesystem::path& file);
Imported import_chakra(const std::filesystem::path& file);
Imported import_kineto(const std::filesystem::path& file);
/// A Hugging Face config.json.
Imported import_hf(const std::filesystem::path& file);
/// Our own JSON (models/graph/graph_json.hpp).
Imported import_json(const std::filesystem::path& file);
/// By format name ("onnx", "chakra", "kineto", "hf", "json"); empty: by the file's name.
Imported import_graph(const std::filesystem::path& file, const std::string& format);
const std::vector<std::string>& import_formats();

}  // namespace orrery::models
