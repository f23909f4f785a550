#include "models/import/importer.hpp"

#include <algorithm>

#include "models/graph/graph_json.hpp"
#include "sim/base/document.hpp"

namespace orrery::models {
namespace {

/// Which of the formats in JSON a file is, by its keys.
std::string json_format(const std::filesystem::path& file) {
  const sim::Node root = sim::read_json(file);
  if (root.find("traceEvents") != nullptr || root.is_array()) return "kineto";
  if (root.find("workload_graph") != nullptr) return "chakra";
  if (root.find("architectures") != nullptr || root.find("model_type") != nullptr) return "hf";
  return "json";
}

std::string format_of(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const auto ends = [&](std::string_view end) { return name.size() > end.size() && name.ends_with(end); };
  if (ends(".onnx")) return "onnx";
  if (ends(".et")) return "chakra";
  if (ends(".pt.trace.json") || ends(".json.gz")) return "kineto";
  if (ends(".json")) return json_format(file);
  sim::throw_fault({file.string(), ""}, "its name does not say what it is: name a format",
                   sim::name_hint("", import_formats()));
}

}  // namespace

const std::vector<std::string>& import_formats() {
  static const std::vector<std::string> all{"chakra", "hf", "json", "kineto", "onnx"};
  return all;
}

Imported import_json(const std::filesystem::path& file) {
  Imported out;
  out.graph = read_graph_json(file);
  return out;
}

Imported import_graph(const std::filesystem::path& file, const std::string& format) {
  const std::string name = format.empty() ? format_of(file) : format;
  if (name == "onnx") return import_onnx(file);
  if (name == "chakra") return import_chakra(file);
  if (name == "kineto") return import_kineto(file);
  if (name == "hf") return import_hf(file);
  if (name == "json") return import_json(file);
  sim::throw_fault({file.string(), ""}, "unknown format '" + format + "'", sim::name_hint(format, import_formats()));
}

}  // namespace orrery::models
