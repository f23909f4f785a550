#include "experiments/capacity/slo_system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/base/config_parts.hpp"
#include "experiments/base/run_folder.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/capacity/reason.hpp"
#include "experiments/capacity/run_length.hpp"
#include "experiments/capacity/serving_question.hpp"

namespace orrery::experiments {
namespace capacity {
namespace {

using sim::Node;

struct SweepParams {
  std::vector<double> rates;
  std::int64_t points = 8;
  double from = 0.25, to = 2;
  std::vector<double> scales{0.5, 0.75, 1, 1.5, 2, 3, 5};
  double target = 0.95;
  std::optional<std::int64_t> requests;
  std::int64_t max_requests = kMaxRequests;
  std::int64_t replications = 3;

  static constexpr auto fields() {
    using sim::Unit;
    using P = SweepParams;
    return sim::FieldTable{
        sim::field("rates", &P::rates, Unit::per_s, sim::between(1e-9, 1e9),
                   "Request rates to run at; empty: `points` rates from `from` to `to`."),
        sim::field("points", &P::points, Unit::count, sim::between(1, 1000), "Number of rates, evenly spaced."),
        sim::field("from", &P::from, Unit::ratio, sim::positive(), "Lowest rate, as a multiple of the workload's own."),
        sim::field("to", &P::to, Unit::ratio, sim::positive(), "Highest rate, as a multiple of the workload's own."),
        sim::field("scales", &P::scales, Unit::ratio, sim::positive(),
                   "Factors by which the targets of `slo` are multiplied."),
        sim::field(
            "target", &P::target, Unit::ratio, sim::between(0, 1),
            "Attainment for which the smallest scale of each rate and the highest rate of each scale are reported."),
        sim::field("requests", &P::requests, Unit::requests, sim::at_least(1),
                   "Requests (or instances of a program) of the first run at a rate; null: those of the workload. Runs "
                   "that are too short are made longer."),
        sim::field("max_requests", &P::max_requests, Unit::requests, sim::between(1, 1e8),
                   "Most requests of a run that is made longer."),
        sim::field("replications", &P::replications, Unit::count, sim::between(1, 1000),
                   "Runs per point, with seeds seed, seed + 1, ….")};
  }
};

struct Point {
  double rate = 0, scale = 0, mean = 0, half_width = 0;
};

/// A rate, and the runs that it takes.
struct Row {
  double rate = 0;
  std::int64_t requests = 0;
  LoadState load = LoadState::steady;
};

Point point_of(double rate, double scale, const std::vector<double>& values) {
  Point point{.rate = rate, .scale = scale};
  const auto n = static_cast<double>(values.size());
  for (const double value : values) point.mean += value / n;
  point.half_width = half_width(values, point.mean, 0.95);
  return point;
}

/// The sections of its config.
struct SweepSections : ServingParams {
  SweepParams slo_sweep;

  static constexpr auto fields() {
    using S = SweepSections;
    return sim::joined(
        sim::inherited<S>(ServingParams::fields()),
        sim::FieldTable{sim::section("slo_sweep", &S::slo_sweep, "Request rates and scales of the targets.")});
  }
};

class SloSweep final : public SetupQuestion {
 public:
  SloSweep(ServingConfig config, const SweepParams& params)
      : SetupQuestion(std::move(config), "slo_sweep", sim::write_params(params)), params_(params) {}

 private:
  Outcome answer(const RunSink& sink) const override {
    Outcome outcome;
    const Arrivals arrivals = arrivals_of(config_, params_.requests, params_.max_requests);
    require_rate(config_, arrivals);
    std::vector<double> rates = params_.rates;
    for (std::int64_t i = 0; rates.empty() || (params_.rates.empty() && i < params_.points); ++i) {
      const double step =
          params_.points > 1 ? (params_.to - params_.from) / static_cast<double>(params_.points - 1) : 0;
      rates.push_back(arrivals.per_s * (params_.from + step * static_cast<double>(i)));
    }
    std::vector<Row> rows;
    std::vector<Point> points;
    for (const double rate : rates) {
      rows.push_back(long_enough(rate, arrivals, outcome));
      for (const double scale : params_.scales) points.push_back(measure(rows.back(), scale, arrivals, outcome));
      if (sink.progress)
        sink.progress({std::ssize(points), std::ssize(rates) * std::ssize(params_.scales), 0, "points"});
    }
    outcome.summary = summary(rows, points, arrivals);
    if (const Binding binding = first_miss(rows, points, arrivals); !binding.target.empty())
      outcome.summary.set("binds", binding_node(binding));
    if (sink.folder) {
      std::string text = "rate_per_s,scale,attainment,half_width\n";
      for (const Point& p : points)
        append(text, "{:.9g},{:.9g},{:.9g},{:.9g}\n", p.rate, p.scale, p.mean, p.half_width);
      write_text(*sink.folder / "slo.csv", text);
    }
    return outcome;
  }

  /// How long the runs of a rate have to be; what is measured at one scale of the targets decides nothing of it.
  Row long_enough(double rate, const Arrivals& arrivals, Outcome& outcome) const {
    RunLength length(arrivals);
    Row row{.rate = rate};
    do {
      row.requests = length.requests();
      const ServingResult result =
          setup_.run(nullptr, {}, {.rate_scale = rate / arrivals.per_s, .requests = row.requests});
      outcome.events += result.events;
      length.add(result);
      row.load = length.load();
    } while (row.load == LoadState::too_short && length.lengthen());
    return row;
  }

  Point measure(const Row& row, double scale, const Arrivals& arrivals, Outcome& outcome) const {
    std::vector<double> values;
    for (std::int64_t i = 0; i < params_.replications; ++i) {
      const ServingResult result = setup_.run(
          nullptr, {},
          {.replication = i, .rate_scale = row.rate / arrivals.per_s, .requests = row.requests, .slo_scale = scale});
      outcome.events += result.events;
      const ServingMetrics& m = result.metrics;
      values.push_back(m.measured > 0 ? static_cast<double>(m.verdicts.attained) / static_cast<double>(m.measured) : 0);
    }
    return point_of(row.rate, scale, values);
  }

  Node summary(const std::vector<Row>& rows, const std::vector<Point>& points, const Arrivals& arrivals) const {
    Node root = Node::object();
    root.set("status", Node::string("ok"));
    root.set("nominal_rate_per_s", Node::real(arrivals.per_s));
    root.set("target", Node::real(params_.target));
    Node by_rate = Node::array();
    for (const Row& row : rows) {
      Node node = Node::object();
      node.set("rate_per_s", Node::real(row.rate));
      node.set("requests", Node::integer(row.requests));
      node.set("load", Node::string(std::string(sim::to_string(row.load))));
      Node& attainment = node.set("attainment", Node::object());
      std::optional<double> least;
      for (const Point& p : points) {
        if (p.rate != row.rate) continue;
        attainment.set(fmt::format("{}", p.scale), Node::real(p.mean));
        if (!least && p.mean >= params_.target) least = p.scale;
      }
      node.set("least_scale", least ? Node::real(*least) : Node{});
      by_rate.push(std::move(node));
    }
    root.set("by_rate", std::move(by_rate));
    Node by_scale = Node::array();
    for (const double scale : params_.scales) {
      Node node = Node::object();
      node.set("scale", Node::real(scale));
      node.set("greatest_rate_per_s", greatest(rows, points, scale));
      by_scale.push(std::move(node));
    }
    root.set("by_scale", std::move(by_scale));
    return root;
  }

  /// What binds at the first rate that misses the target at the scale nearest to 1.
  Binding first_miss(const std::vector<Row>& rows, const std::vector<Point>& points, const Arrivals& arrivals) const {
    const auto off = [](double scale) { return std::abs(std::log(scale)); };
    const double scale = *std::min_element(params_.scales.begin(), params_.scales.end(),
                                           [&](double a, double b) { return off(a) < off(b); });
    for (const Row& row : rows)
      for (const Point& p : points)
        if (p.rate == row.rate && p.scale == scale && p.mean < params_.target) {
          const RunChange change{.rate_scale = row.rate / arrivals.per_s, .requests = row.requests, .slo_scale = scale};
          return *run_watched(config_, setup_, nullptr, {}, change).binds;
        }
    return {};
  }

  /// Of rates in order; beyond the first that misses, or whose runs do not say what longer ones would, nothing counts.
  Node greatest(const std::vector<Row>& rows, const std::vector<Point>& points, double scale) const {
    std::optional<double> greatest;
    for (const Row& row : rows) {
      if (row.load != LoadState::steady) break;
      for (const Point& p : points)
        if (p.rate == row.rate && p.scale == scale && p.mean < params_.target)
          return greatest ? Node::real(*greatest) : Node{};
      greatest = row.rate;
    }
    return greatest ? Node::real(*greatest) : Node{};
  }

  SweepParams params_;
};

}  // namespace
}  // namespace capacity

System slo_sweep_system() {
  return {
      .name = "slo_sweep",
      .doc = "Attainment of a serving system by request rate and by scale of its targets.",
      .fields = describe_sections<capacity::SweepSections>,
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        ServingConfig config = capacity::read_serving_part(root, {"slo_sweep"}, systems, faults);
        const sim::Node node = section(root, "slo_sweep");
        auto params = sim::parse_params<capacity::SweepParams>(node, faults);
        if (!config.slo.ttft_s && !config.slo.tbt_s)
          faults.add(place_of(root, "slo"), "expected a target: ttft or tbt", "\"slo\": {\"ttft\": \"2 s\"}");
        if (params.scales.empty()) faults.add(place_of(node, "scales"), "expected at least one scale");
        if (params.from > params.to) faults.add(place_of(node, "from"), "expected no more than 'to'");
        faults.throw_if_any();
        std::sort(params.rates.begin(), params.rates.end());
        std::sort(params.scales.begin(), params.scales.end());
        return std::make_unique<capacity::SloSweep>(std::move(config), params);
      }};
}

}  // namespace orrery::experiments
