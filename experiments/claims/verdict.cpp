#include "experiments/claims/verdict.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "experiments/claims/figure.hpp"

namespace orrery::experiments::claims {
namespace {

using sim::Node;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// A measure's path with its placeholders filled in.
std::string path_at(const ClaimStudy& study, const Measure& measure, std::size_t variant, std::size_t point) {
  std::string path = measure.path;
  const auto fill_in = [&](const std::string& name, const std::string& text) {
    const std::string token = "{" + name + "}";
    for (std::size_t at = path.find(token); at != std::string::npos; at = path.find(token, at + text.size()))
      path.replace(at, token.size(), text);
  };
  fill_in("variant", study.variants[variant].name);
  for (std::size_t a = 0; a < study.axes.size(); ++a)
    fill_in(study.axes[a].name, study.axes[a].values[study.position(point, a)].label);
  return path;
}

std::string run_text(const ClaimStudy& study, std::size_t variant, std::size_t point) {
  const std::string at = study.point_text(point);
  return fmt::format("variant '{}'{}{}", study.variants[variant].name, at.empty() ? "" : " at ", at);
}

std::string absence_text(const FigureSearch& search) {
  return search.reached.empty() ? fmt::format("summary.json has no '{}'", search.missing)
                                : fmt::format("'{}' of summary.json has no '{}'", search.reached, search.missing);
}

/// Reports the measures that no feasible run has.
void check_present(const StudyResult& result, sim::Faults& faults) {
  const ClaimStudy& study = result.study;
  for (const Measure& measure : study.measures) {
    std::optional<FigureSearch> missed;
    bool found = false;
    for (std::size_t v = 0; v < study.variants.size() && !found; ++v)
      for (std::size_t p = 0; p < study.points() && !found; ++p) {
        const RunResult& run = result.run(v, p);
        if (!run.reason.empty()) continue;
        FigureSearch search = find_figure(run.summary, path_at(study, measure, v, p));
        found = search.found != nullptr;
        if (!found && !missed) missed = std::move(search);
      }
    if (!found && missed)
      faults.add(measure.origin, fmt::format("no run has this figure: {}", absence_text(*missed)),
                 sim::name_hint(missed->missing, missed->members));
  }
}

}  // namespace

FigureTable::FigureTable(const StudyResult& result) {
  const ClaimStudy& study = result.study;
  const std::size_t points = study.points();
  const std::size_t series = study.axis_slot(study.axes.size());
  columns_.resize(series, std::vector<double>(points, kNone));
  reasons_.resize(series);
  sim::Faults faults;
  check_present(result, faults);
  for (std::size_t v = 0; v < study.variants.size(); ++v) {
    for (std::size_t m = 0; m < study.measures.size(); ++m) fill(result, v, m, faults);
    for (std::size_t p = 0; p < points; ++p)
      columns_[study.feasible_slot(v)][p] = result.run(v, p).reason.empty() ? 1 : 0;
  }
  for (std::size_t a = 0; a < study.axes.size(); ++a)
    for (std::size_t p = 0; p < points; ++p)
      columns_[study.axis_slot(a)][p] = study.axes[a].values[study.position(p, a)].number;
  faults.throw_if_any();
}

void FigureTable::fill(const StudyResult& result, std::size_t variant, std::size_t measure, sim::Faults& faults) {
  const ClaimStudy& study = result.study;
  const std::size_t slot = study.measure_slot(variant, measure);
  std::string& reason = reasons_[slot];
  for (std::size_t p = 0; p < study.points(); ++p) {
    const RunResult& run = result.run(variant, p);
    std::string absent = run.reason;
    if (absent.empty()) {
      const FigureSearch search = find_figure(run.summary, path_at(study, study.measures[measure], variant, p));
      if (search.found == nullptr) {
        absent = absence_text(search);
      } else if (search.found->is_number()) {
        columns_[slot][p] = search.found->as_number();
        continue;
      } else if (search.found->kind() == Node::Kind::boolean) {
        columns_[slot][p] = search.found->as_boolean() ? 1 : 0;
        continue;
      } else if (search.found->is_null()) {
        absent = fmt::format("'{}' is null", study.measures[measure].name);
      } else {
        std::vector<std::string> members;
        for (const auto& member : search.found->members()) members.push_back(member.first);
        faults.add(study.measures[measure].origin,
                   fmt::format("expected the path of a number, found {}", search.found->shown()),
                   members.empty() ? "" : sim::name_hint("", members));
        return;
      }
    }
    if (reason.empty()) reason = fmt::format("{}: {}", run_text(study, variant, p), absent);
  }
}

Verdict judge(const StudyResult& result, const Claim& claim, const FigureTable& figures) {
  std::vector<std::span<const double>> series;
  for (const std::vector<double>& column : figures.columns()) series.emplace_back(column);
  const sim::FormulaValues values{{}, series};
  std::vector<double> value;
  claim.value.series(values, value);
  Verdict verdict{.note = claim.note};
  claim.value.reduced(values, verdict.series);
  if (verdict.series.size() != result.study.points()) verdict.series.clear();
  if (std::isfinite(value.front())) {
    verdict.simulated = value.front();
    verdict.holds =
        (!claim.low || *verdict.simulated >= *claim.low) && (!claim.high || *verdict.simulated <= *claim.high);
    return verdict;
  }
  std::string reason = std::isnan(value.front()) ? "its value is not defined (a selection without a point, or 0/0)"
                                                 : "its value is infinite";
  for (const std::size_t slot : claim.value.series_used())
    if (!figures.reason(slot).empty()) {
      reason = figures.reason(slot);
      break;
    }
  verdict.note = fmt::format("not judged: {}{}{}", reason, claim.note.empty() ? "" : "; ", claim.note);
  return verdict;
}

std::vector<JudgedStudy> judge_studies(std::vector<StudyResult> results) {
  std::vector<JudgedStudy> judged;
  sim::Faults faults;
  for (StudyResult& result : results) {
    try {
      FigureTable figures(result);
      std::vector<Verdict> verdicts;
      for (const Claim& claim : result.study.claims) verdicts.push_back(judge(result, claim, figures));
      judged.push_back({std::move(result), std::move(figures), std::move(verdicts)});
    } catch (const sim::ConfigError& error) {
      for (const sim::Fault& fault : error.faults()) faults.add(fault.where, fault.message, fault.hint);
    }
  }
  faults.throw_if_any();
  return judged;
}

}  // namespace orrery::experiments::claims
