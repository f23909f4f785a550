// Judges claims: the formula over the figures of the runs against the band.
//
// A figure that a run does not have (null, not feasible, not written by that variant) is no value; a claim that needs
// it is not judged, with the reason. A figure that no run of a study has is a fault of the study.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/claims/runner.hpp"

namespace orrery::experiments::claims {

struct Verdict {
  std::optional<double> simulated;  ///< none: not judged
  bool holds = false;
  std::string note;            ///< the claim's, after the reason if it is not judged
  std::vector<double> series;  ///< over the grid, what the formula reduces to `simulated`; NaN: not there
};

/// The figures of a study as the series that its formulas read.
class FigureTable {
 public:
  /// Throws sim::ConfigError for measures that no feasible run has, or that are no numbers.
  explicit FigureTable(const StudyResult& result);
  const std::vector<std::vector<double>>& columns() const { return columns_; }
  /// Why a series has no value somewhere; empty if it has all.
  const std::string& reason(std::size_t slot) const { return reasons_[slot]; }

 private:
  void fill(const StudyResult& result, std::size_t variant, std::size_t measure, sim::Faults& faults);
  std::vector<std::vector<double>> columns_;
  std::vector<std::string> reasons_;
};

Verdict judge(const StudyResult& result, const Claim& claim, const FigureTable& figures);

/// A study judged, claim by claim.
struct JudgedStudy {
  StudyResult result;
  FigureTable figures;
  std::vector<Verdict> verdicts;
};
/// Throws sim::ConfigError with the faults of all.
std::vector<JudgedStudy> judge_studies(std::vector<StudyResult> results);

}  // namespace orrery::experiments::claims
