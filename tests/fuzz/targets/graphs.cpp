// Importers of graphs: files that other tools write.
#include "models/graph/graph_json.hpp"
#include "models/import/importer.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace orrery::fuzz {
namespace {

/// A graph that is imported can be written and read.
void import(std::string_view input, const char* format, std::string_view name) {
  const models::Imported imported = models::import_graph(as_file(input, name), format);
  const std::string written = models::json_text(imported.graph);
  require(models::json_text(models::graph_from_json(sim::parse_json(written, "written"))) == written,
          "an imported graph is read as it was written");
}

}  // namespace

void fuzz_onnx(std::string_view input) {
  import(input, "onnx", "model.onnx");
}
void fuzz_chakra(std::string_view input) {
  import(input, "chakra", "trace.et");
}
void fuzz_kineto(std::string_view input) {
  import(input, "kineto", "trace.json");
}
void fuzz_hf(std::string_view input) {
  import(input, "hf", "config.json");
}
void fuzz_graph_json(std::string_view input) {
  import(input, "json", "graph.json");
}

}  // namespace orrery::fuzz
