// Configs: the text, assignments to it, and what systems and studies make of them.
#include <algorithm>
#include <string>
#include <vector>

#include "experiments/all/systems.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/study/study.hpp"
#include "policies/plugin_host.hpp"
#include "sim/base/document.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/fuzz/targets/targets.hpp"

namespace orrery::fuzz {
namespace {

const experiments::Systems& systems() {
  static const experiments::Systems all = experiments::all_systems(policies::loaded_plugins());
  return all;
}

/// A base names a file, and what stands in files of this machine is not the input's.
bool names_files(std::string_view input) {
  return input.find("/dev") != std::string_view::npos || input.find("/proc") != std::string_view::npos;
}

}  // namespace

/// What is written can be read, and is the same.
void fuzz_document(std::string_view input) {
  const sim::Node node = sim::parse_json(input, "input");
  const std::string written = node.dump();
  require(sim::parse_json(written, "written").dump() == written, "a document is read as it was written");
  require(sim::parse_json(node.dump(2), "indented").dump() == written, "so is an indented one");
}

/// A line each is an assignment to a small config; the first is its JSON.
void fuzz_settings(std::string_view input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  sim::Node root = sim::parse_json(input.substr(0, end), "input");
  for (std::size_t at = end + 1; at < input.size();) {
    const std::size_t next = std::min(input.find('\n', at), input.size());
    sim::assign(root, input.substr(at, next - at));
    at = next + 1;
  }
  const std::string written = root.dump();
  require(sim::parse_json(written, "written").dump() == written, "assignments leave a document");
}

/// An experiment of any system, with its defaults and references; it is not run.
void fuzz_config(std::string_view input) {
  if (names_files(input)) return;
  const auto experiment = experiments::read_experiment(systems(), sim::parse_json(input, "input"));
  const std::string resolved = experiment->resolved().dump();
  require(!resolved.empty(), "an experiment has a resolved config");
}

void fuzz_study(std::string_view input) {
  if (names_files(input)) return;
  (void)experiments::study::read_study(systems(), as_file(input, "study.json"));
}

}  // namespace orrery::fuzz
