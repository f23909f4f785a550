#include "experiments/answers/progress_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/csv_table.hpp"

namespace orrery::experiments {
namespace {

using sim::Node;

Node object(std::initializer_list<std::pair<const char*, double>> values) {
  Node node = Node::object();
  for (const auto& [name, value] : values) node.set(name, Node::real(value));
  return node;
}

}  // namespace

Node score_node(const ScoreParams& params) {
  const progress::Scores all = progress::read_scores(params.table, params.most);
  Node list = Node::array();
  for (std::size_t i = 0; i < all.submissions.size(); ++i) {
    Node one = Node::object();
    one.set("submission", Node::string(all.submissions[i].name));
    one.set("score", Node::real(all.scores[i]));
    list.push(std::move(one));
  }
  Node node = Node::object();
  node.set("workloads", Node::integer(std::ssize(all.workloads)));
  node.set("submissions", std::move(list));
  return node;
}

std::string score_text(const ScoreParams& params) {
  const progress::Scores all = progress::read_scores(params.table, params.most);
  std::string out = fmt::format("{} workloads, up to {:g} times the fastest\n\n{:<28} {:>7} {:>9}\n",
                                all.workloads.size(), params.most, "submission", "score", "reached");
  for (std::size_t i = 0; i < all.submissions.size(); ++i) {
    const auto& times = all.submissions[i].times_s;
    const auto reached = std::ranges::count_if(times, [](double time) { return std::isfinite(time); });
    out += fmt::format("{:<28} {:>7.4f} {:>9}\n", all.submissions[i].name, all.scores[i], reached);
  }
  return out;
}

CurveAnswer fit_reward_curve(const CurveParams& params) {
  const std::filesystem::path path = params.table;
  const sim::CsvTable table = sim::CsvTable::read(path.parent_path(), path.filename().string());
  std::vector<progress::CurvePoint> fitted, judged;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const progress::CurvePoint point{table.number(row, "compute"), table.number(row, "reward")};
    if (!(point.compute > 0))
      sim::throw_fault({fmt::format("{}:row {}", path.string(), row + 1), ""},
                       fmt::format("expected a compute above 0, got {}", point.compute));
    if (point.compute < params.from) continue;
    (params.until > 0 && point.compute > params.until ? judged : fitted).push_back(point);
  }
  if (fitted.size() < 4)
    sim::throw_fault({path.string(), ""}, fmt::format("expected at least 4 points to fit, got {}", fitted.size()));
  CurveAnswer answer{
      .params = params,
      .fit = progress::fit_curve(fitted, params.start, params.draws, static_cast<std::uint64_t>(params.seed)),
      .fitted = std::ssize(fitted),
      .judged = std::ssize(judged)};
  for (const progress::CurvePoint& point : judged) {
    const double error = point.reward - answer.fit.curve.at(point.compute);
    answer.judged_error += error * error / static_cast<double>(judged.size());
  }
  answer.judged_error = std::sqrt(answer.judged_error);
  const double last = answer.fit.reach * answer.fit.curve.middle;
  if (params.at > last && !answer.fit.trusted())
    sim::throw_fault(
        {"at", ""},
        fmt::format("expected at most {:.6g}, the last compute that is fitted: the points reach {:.2f} times "
                    "the curve's middle, and below 2 its ceiling is a guess",
                    last, answer.fit.reach));
  return answer;
}

Node curve_node(const CurveAnswer& answer) {
  const progress::CurveFit& fit = answer.fit;
  Node node = object({{"ceiling", fit.curve.ceiling},
                      {"ceiling_low", fit.ceiling_low},
                      {"ceiling_high", fit.ceiling_high},
                      {"exponent", fit.curve.exponent},
                      {"middle", fit.curve.middle},
                      {"start", fit.curve.start},
                      {"residual", fit.residual},
                      {"reach", fit.reach}});
  node.set("trusted", Node::boolean(fit.trusted()));
  node.set("fitted", Node::integer(answer.fitted));
  node.set("judged", Node::integer(answer.judged));
  if (answer.judged > 0) node.set("judged_error", Node::real(answer.judged_error));
  if (answer.params.at > 0) node.set("reward", Node::real(fit.curve.at(answer.params.at)));
  return node;
}

std::string curve_text(const CurveAnswer& answer) {
  const progress::CurveFit& fit = answer.fit;
  std::string out = fmt::format(
      "ceiling A    {:.4f}, 90 % of resampled fits from {:.4f} to {:.4f}\nexponent B   {:.3f}\nmiddle       {:.6g}\n"
      "residual     {:.4f} over {} points\nreach        {:.2f} times the middle{}\n",
      fit.curve.ceiling, fit.ceiling_low, fit.ceiling_high, fit.curve.exponent, fit.curve.middle, fit.residual,
      answer.fitted, fit.reach, fit.trusted() ? "" : ": below 2, the ceiling is a guess and nothing is extrapolated");
  if (answer.judged > 0) out += fmt::format("held out     {:.4f} over {} points\n", answer.judged_error, answer.judged);
  if (answer.params.at > 0)
    out += fmt::format("reward       {:.4f} at {:.6g}\n", fit.curve.at(answer.params.at), answer.params.at);
  return out;
}

}  // namespace orrery::experiments
