#include "experiments/claims/report.hpp"
#include "sim/base/csv.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cmath>

namespace orrery::experiments::claims {
namespace {

using sim::Node;

constexpr std::size_t kWidth = 118;

Node number_or_null(const std::optional<double>& value) {
  return value ? Node::real(*value) : Node{};
}

std::string band_text(const Claim& claim) {
  if (!claim.low) return fmt::format("<= {:.4g}", *claim.high);
  if (!claim.high) return fmt::format(">= {:.4g}", *claim.low);
  return fmt::format("{:.4g} to {:.4g}", *claim.low, *claim.high);
}

/// Text in lines of kWidth, each after `indent` blanks.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out(indent, ' ');
  std::size_t column = indent;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(' ', from), text.size());
    if (column > indent && column + 1 + (to - from) > kWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(from, to - from);
    column += to - from;
    from = to + 1;
  }
  return out + '\n';
}

/// Axes of a point: "batch=4;model=bert".
std::string point_cell(const ClaimStudy& study, std::size_t point) {
  std::string text;
  for (std::size_t a = 0; a < study.axes.size(); ++a)
    text += fmt::format("{}{}={}", a == 0 ? "" : ";", study.axes[a].name,
                        study.axes[a].values[study.position(point, a)].label);
  return sim::csv_cell(text);
}

}  // namespace

Node claims_json(const std::vector<JudgedStudy>& studies) {
  Node list = Node::array();
  for (const JudgedStudy& one : studies)
    for (std::size_t i = 0; i < one.verdicts.size(); ++i) {
      const Claim& claim = one.result.study.claims[i];
      const Verdict& verdict = one.verdicts[i];
      Node band = Node::array();
      band.push(number_or_null(claim.low));
      band.push(number_or_null(claim.high));
      Node node = Node::object();
      node.set("study", Node::string(one.result.study.name));
      node.set("system", Node::string(one.result.study.system));
      node.set("claim", Node::string(claim.text));
      node.set("source", Node::string(claim.source));
      node.set("expected", std::move(band));
      node.set("basis", Node::string(std::string(sim::to_string(claim.basis))));
      node.set("simulated", number_or_null(verdict.simulated));
      node.set("holds", Node::boolean(verdict.holds));
      node.set("note", Node::string(verdict.note));
      list.push(std::move(node));
    }
  Node root = Node::object();
  root.set("claims", std::move(list));
  return root;
}

std::string claims_text(const std::vector<JudgedStudy>& studies) {
  std::string text;
  std::size_t claims = 0, held = 0, unjudged = 0, tied = 0, tied_held = 0;
  for (const JudgedStudy& one : studies) {
    const ClaimStudy& study = one.result.study;
    text += fmt::format("{} ({}){}{}\n", study.system, study.name, study.title.empty() ? "" : ": ", study.title);
    for (std::size_t i = 0; i < one.verdicts.size(); ++i) {
      const Claim& claim = study.claims[i];
      const Verdict& verdict = one.verdicts[i];
      ++claims;
      held += verdict.holds ? 1 : 0;
      tied += claim.tied() ? 1 : 0;
      tied_held += claim.tied() && verdict.holds ? 1 : 0;
      unjudged += verdict.simulated ? 0 : 1;
      const char* word = verdict.holds ? "holds" : verdict.simulated ? "MISSED" : "not judged";
      const std::string value = verdict.simulated ? fmt::format("{:.4g}", *verdict.simulated) : "-";
      const char* how = claim.basis == Basis::construction ? ", by construction" : "";
      text += fmt::format("  {:<10} {:>10}   expected {}{}\n", word, value, band_text(claim), how);
      text += wrapped(claim.text, 6);
      text += wrapped("source: " + claim.source, 6);
      if (!verdict.note.empty()) text += wrapped("note: " + verdict.note, 6);
    }
    text += '\n';
  }
  text += fmt::format("{} of {} hold that a published figure ties from both sides, {} of {} others\n", tied_held, tied,
                      held - tied_held, claims - tied);
  text +=
      fmt::format("{} of {} claims hold, {} missed, {} not judged\n", held, claims, claims - held - unjudged, unjudged);
  return text;
}

void write_points(const std::vector<JudgedStudy>& studies, std::ostream& out) {
  out << "study,variant,point,x,measure,value\n";
  for (const JudgedStudy& one : studies) {
    const ClaimStudy& study = one.result.study;
    const auto write = [&](const std::string& variant, const std::string& measure, const std::vector<double>& values) {
      for (std::size_t p = 0; p < values.size(); ++p)
        if (std::isfinite(values[p]))
          fmt::print(out, "{},{},{},{},{},{}\n", sim::csv_cell(study.name), variant, p, point_cell(study, p), measure,
                     values[p]);
    };
    for (std::size_t v = 0; v < study.variants.size(); ++v)
      for (std::size_t m = 0; m < study.measures.size(); ++m)
        write(study.variants[v].name, study.measures[m].name, one.figures.columns()[study.measure_slot(v, m)]);
    for (std::size_t i = 0; i < one.verdicts.size(); ++i) write("", fmt::format("claim:{}", i), one.verdicts[i].series);
  }
}

}  // namespace orrery::experiments::claims
