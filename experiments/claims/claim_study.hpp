// A claim study: what a paper says of a system, and the experiment that says whether it comes out.
//
// One file states a base experiment, variants of it (assignments by dotted path), a grid of axes, names for figures of
// summary.json, and claims: a formula over these figures, the source, and the band in which its value is expected. The
// reader turns the file into this plain struct and reports every fault; runner.hpp runs it, verdict.hpp judges it
// (docs/papers/index.md). Nothing here knows any system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/base/assignment.hpp"
#include "experiments/base/study_file.hpp"
#include "sim/base/document.hpp"
#include "sim/base/formula.hpp"
#include "sim/base/params.hpp"

namespace orrery::experiments::claims {

/// One way to run the base experiment.
struct Variant {
  std::string name;
  std::vector<Assignment> assignments;
};

struct Axis {
  std::string name;
  std::vector<Choice> values;
};

/// A parameter that no source gives, with values that are as good.
struct Parameter {
  Axis axis;
  std::vector<std::string> variants;  ///< whose it is, over what they set themselves; none: the base's
};

/// What a claim rests on.
enum class Basis : std::uint8_t { published, reading, control, construction };
constexpr auto enum_names(Basis) {
  using enum Basis;
  return sim::names<Basis>(
      {{"published", published}, {"reading", reading}, {"control", control}, {"construction", construction}});
}

/// As it stands in the file.
struct ClaimParams {
  std::string claim, source, value, note;
  std::vector<std::optional<double>> expected;
  Basis basis = Basis::published;

  static constexpr auto fields() {
    using sim::Unit;
    using C = ClaimParams;
    return sim::FieldTable{
        sim::required(sim::field("claim", &C::claim, Unit::text, sim::any_value(), "The claim in one line.")),
        sim::required(sim::field("source", &C::source, Unit::text, sim::any_value(), "Where the claim is made.")),
        sim::required(sim::field("value", &C::value, Unit::text, sim::any_value(),
                                 "Formula over VARIANT.MEASURE and axes that gives one number.")),
        sim::required(sim::field("expected", &C::expected, Unit::none, sim::any_value(),
                                 "Range in which the value is expected, ends included; null: open.")),
        sim::field("basis", &C::basis,
                   "Basis of the expectation. `published`: a figure of its source. `reading`: a sign, an order or a "
                   "bound of ours. `control`: a case in which an effect must vanish. `construction`: what holds for "
                   "any model, a check of the code."),
        sim::field("note", &C::note, Unit::text, sim::any_value(), "What the claim rests on; if it is missed, why."),
    };
  }
};

struct Claim {
  std::string text, source, note;
  sim::Formula value;
  std::optional<double> low, high;
  Basis basis = Basis::published;

  /// Whether it is tied to a published figure from both sides, so that too much is a miss as well as too little.
  bool tied() const { return basis == Basis::published && low && high && *low < *high; }
};

struct ClaimStudy {
  std::string name;  ///< stem of the file
  std::filesystem::path file;
  std::string system, title;
  sim::Node base;
  std::vector<Variant> variants;
  std::vector<Axis> axes;         ///< the last one varies fastest
  std::vector<Measure> measures;  ///< in whose paths {AXIS} and {variant} stand for what a run is at
  std::vector<Claim> claims;
  std::vector<Parameter> sensitivity;

  std::size_t points() const;
  /// Position on an axis of a point of the grid.
  std::size_t position(std::size_t point, std::size_t axis) const;
  /// "batch=4, model=bert"; empty without axes.
  std::string point_text(std::size_t point) const;
  /// The config of a run. Throws sim::ConfigError for an assignment that cannot be made.
  sim::Node config(const Variant& variant, std::size_t point) const;

  // Slots of the series in formulas: figures variant by variant, then what is feasible, then the axes.
  std::size_t measure_slot(std::size_t variant, std::size_t measure) const {
    return variant * measures.size() + measure;
  }
  std::size_t feasible_slot(std::size_t variant) const { return variants.size() * measures.size() + variant; }
  std::size_t axis_slot(std::size_t axis) const { return variants.size() * (measures.size() + 1) + axis; }
};

/// Whether a document says that it is a claim study.
bool is_claim_study(const sim::Node& root);
/// Whether that file does. Throws sim::ConfigError if it is no JSON.
bool is_claim_study(const std::filesystem::path& file);

/// Reads a study with assignments laid over it. Throws sim::ConfigError with all faults but those of the experiments
/// that it makes, which runner.hpp finds.
ClaimStudy read_study(const std::filesystem::path& file, const std::vector<std::string>& assignments = {});

/// The file that an argument names: a path, or the name of a study that ships. Throws sim::ConfigError.
std::filesystem::path study_file(const std::string& argument);
/// Variants, axes, measures and claims of a study that ships, as text.
std::string study_text(const std::string& name);

}  // namespace orrery::experiments::claims
