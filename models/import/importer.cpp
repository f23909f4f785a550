#include "models/import/importer.hpp"

#include "sim/base/fault.hpp"
#include "sim/base/params.hpp"

namespace orrery::models {

const std::vector<std::string>& import_formats() {
  static const std::vector<std::string> all{};
  return all;
}

Imported import_graph(const std::filesystem::path& file, const std::string& format) {
  sim::throw_fault({file.string(), ""}, "no importer reads format '" + format + "' yet");
}

}  // namespace orrery::models
