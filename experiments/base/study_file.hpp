// What the files of claim studies, sweeps and evolution share: members with faults, a base experiment, lists of
// choices, figures that are measured; and where those that ship stand.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/base/assignment.hpp"
#include "sim/base/document.hpp"
#include "sim/base/params.hpp"
#include "sim/base/units.hpp"

namespace orrery::experiments {

/// The member of that name if it is there and of the kind; a fault otherwise, for one that is absent only if required.
const sim::Node* member(const sim::Node& node, std::string_view name, sim::Node::Kind kind, const char* expected,
                        bool required, sim::Faults& faults);
/// A member that is a text; empty if it is absent.
std::string text_member(const sim::Node& node, std::string_view name, bool required, sim::Faults& faults);
/// Reports members that are not in `known`.
void check_keys_of(const sim::Node& node, const std::vector<std::string>& known, sim::Faults& faults);
/// Whether formulas may use a name; a fault otherwise. `what` it is the name of.
bool check_name(const std::string& name, const sim::Origin& where, const char* what, sim::Faults& faults);
/// Reports a document whose `version` is not 1.
void check_version(const sim::Node& root, sim::Faults& faults);

/// An object of "path": value.
std::vector<Assignment> read_assignments(const sim::Node& node, sim::Faults& faults);
/// `path` of a list of choices: one, several that get the same value, or none.
std::vector<std::string> read_paths(const sim::Node& node, sim::Faults& faults);
/// `values`: numbers, quantities and texts, or {"is": VALUE, "set": {PATH: VALUE}}; each is assigned to `paths`.
std::vector<Choice> read_choices(const sim::Node& node, const std::vector<std::string>& paths, sim::Faults& faults);

/// A figure of summary.json by its dotted path.
struct Measure {
  std::string name, path;
  sim::Origin origin;
};
/// `measures`: an object of "name": "path in summary.json".
std::vector<Measure> read_measures(const sim::Node& root, sim::Faults& faults);

/// The number of a quantity in SI, and its dimension.
std::optional<std::pair<double, sim::Unit>> quantity_of(std::string_view text);

/// The base experiment of a study: an object, on top of experiment files if it has a `base` itself, or the name of such
/// a file.
sim::Node read_base(const sim::Node& root, sim::Faults& faults);

/// A study with assignments "a.b=value" laid over its document. Those of "base.…" go to the base once it is read, also
/// into what that inherits: see assign_base. Throws sim::ConfigError.
sim::Node read_study_document(const std::string& file, const std::vector<std::string>& assignments);
void assign_study(sim::Node& root, const std::vector<std::string>& assignments);
void assign_base(sim::Node& base, const std::vector<std::string>& assignments);

/// What a document says that it is: "experiment", "claim", "study"; empty where it says nothing.
std::string document_kind(const sim::Node& root);

/// The file that a user's text means: itself, or the document that ships by that name, from any folder. A bare name
/// that is neither is a fault with names that come near.
std::string named_document(const std::string& text);

/// The documents of a kind that ship (experiments/studies), sorted.
std::vector<std::filesystem::path> shipped_studies(std::string_view kind);
/// The same as named components of that kind.
std::vector<sim::ComponentInfo> study_components(const std::string& kind);

}  // namespace orrery::experiments
