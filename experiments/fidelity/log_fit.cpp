#include "experiments/fidelity/log_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "experiments/systems/serving/system.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments {
namespace {

namespace fs = std::filesystem;

constexpr double kDefaultReach = 10;  ///< a constant's bounds where none are given: a tenth and ten times its value
constexpr double kInterval = 1.96;    ///< standard errors either way

/// A constant of the config: a number, and the unit it is written with ("s"; empty: none).
struct Named {
  std::string path, unit;
  double was = 0;  ///< in the config; the search starts inside of its range
  FitConstant range;
  std::string assignment(double value) const {
    return unit.empty() ? fmt::format("{}={}", path, value) : fmt::format("{}={} {}", path, value, unit);
  }
};

/// A file that goes away with the fit.
struct Scratch {
  fs::path file;
  explicit Scratch(const std::string& text)
      : file(fs::temp_directory_path() / fmt::format("orrery-log-{:016x}.csv", sim::hash_text(text))) {
    std::ofstream(file) << text;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove(file, ignored);
  }
};

std::string trace_of(const RequestLog& log) {
  std::string text = "arrived_s,prompt_tokens,output_tokens\n";
  for (const LoggedRequest& r : log.requests)
    text += fmt::format("{:.9f},{},{}\n", r.arrived_s, r.prompt_tokens, r.output_tokens);
  return text;
}

/// Keeps first and last token of every request, in the order of the log.
class Times final : public RunObserver {
 public:
  Times(std::size_t requests, sim::TickScale scale) : scale_(scale), first_(requests), last_(requests) {}
  void request_ended(const RequestRecord& record) override {
    if (!record.first_token || !record.finished) return;
    const auto i = static_cast<std::size_t>(record.id);
    if (i >= first_.size()) return;
    first_[i] = scale_.seconds(*record.first_token - record.arrived);
    last_[i] = scale_.seconds(*record.finished - record.arrived);
  }
  double first(std::size_t i) const { return first_[i]; }
  double last(std::size_t i) const { return last_[i]; }

 private:
  sim::TickScale scale_;
  std::vector<double> first_, last_;  ///< 0: it was not answered
};

double tpot(double first, double last, std::int64_t tokens) {
  return tokens > 1 ? (last - first) / static_cast<double>(tokens - 1) : 0;
}

/// The config's run over the log, with constants as they are asked.
class Replay {
 public:
  Replay(const LogFitOptions& options, const Systems& systems, const RequestLog& log)
      : systems_(systems), log_(log), trace_(trace_of(log)), root_(sim::read_config(fs::path(options.config))) {
    sim::Node workload = sim::Node::object(), trace = sim::Node::object();
    trace.set("format", sim::Node::string("orrery_csv"));
    trace.set("path", sim::Node::string(trace_.file.string()));
    workload.set("trace", std::move(trace));
    root_.set("workload", std::move(workload));
    const ServingConfig config = read({});
    for (const std::string& text : options.constants) constants_.push_back(named(text, config.resolved));
  }

  const std::vector<Named>& constants() const { return constants_; }

  Times run(std::span<const double> values) const {
    const ServingConfig config = read(values);
    const ServingSetup setup(config);
    if (setup.infeasible())
      sim::throw_fault(root_.origin(), "the run does not fit its machine", "`orrery run` says what does not");
    Times times(log_.requests.size(), tick_scale(config.run.tick_s));
    setup.run(&times);
    return times;
  }

  /// The constants as a config would lay them over its base.
  sim::Node overrides(std::span<const LogFit::Constant> found) const {
    sim::Node node = sim::Node::object();
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!found[i].idle) sim::assign(node, constants_[i].assignment(found[i].fitted));
    return node;
  }

 private:
  ServingConfig read(std::span<const double> values) const {
    sim::Node root = root_;
    for (std::size_t i = 0; i < values.size(); ++i) sim::assign(root, constants_[i].assignment(values[i]));
    sim::Faults faults;
    ServingConfig config = read_serving_config(root, systems_.registries(), faults);
    faults.throw_if_any();
    return config;
  }

  /// "PATH" or "PATH=MIN:MAX".
  Named named(const std::string& text, const sim::Node& resolved) const {
    Named out;
    const std::size_t equals = text.find('=');
    out.path = text.substr(0, equals);
    const sim::Node* value = resolved.at(out.path);
    if (value == nullptr || !(value->is_number() || value->is_string()))
      sim::throw_fault({"--constant", ""}, fmt::format("'{}' is no number of this config", out.path),
                       "`orrery run --resolved` writes all that there are");
    if (value->is_string()) {
      const std::string& quantity = value->as_string();
      const auto [end, error] = std::from_chars(quantity.data(), quantity.data() + quantity.size(), out.range.start);
      if (error != std::errc())
        sim::throw_fault({"--constant", ""}, fmt::format("'{}' is no number of this config", out.path));
      out.unit = std::string(end, quantity.data() + quantity.size());
      out.unit.erase(0, out.unit.find_first_not_of(' '));
    } else {
      out.range.start = value->as_number();
    }
    out.was = out.range.start;
    out.range.path = out.path;
    out.range.min = out.range.start / kDefaultReach, out.range.max = out.range.start * kDefaultReach;
    if (equals != std::string::npos) read_bounds(text, equals + 1, out.range);
    if (!(out.range.max > out.range.min))
      sim::throw_fault({"--constant", ""},
                       fmt::format("'{}' is {} here, which leaves no range to search", out.path, out.range.start),
                       fmt::format("--constant {}=MIN:MAX gives one", out.path));
    return out;
  }

  static void read_bounds(const std::string& text, std::size_t from, FitConstant& range) {
    const char* const end = text.data() + text.size();
    const auto least = std::from_chars(text.data() + from, end, range.min);
    const bool colon = least.ec == std::errc() && least.ptr != end && *least.ptr == ':';
    const auto most = colon ? std::from_chars(least.ptr + 1, end, range.max) : least;
    if (!colon || most.ec != std::errc() || most.ptr != end || !(range.max > range.min))
      sim::throw_fault({"--constant", ""}, fmt::format("expected PATH=MIN:MAX, got '{}'", text));
    range.start = std::clamp(range.start, range.min + 0.02 * (range.max - range.min), range.max);
  }

  const Systems& systems_;
  const RequestLog& log_;
  Scratch trace_;
  sim::Node root_;
  std::vector<Named> constants_;
};

/// Requests in a fit; empty: all.
using Mask = std::vector<char>;

class LogProblem {
 public:
  LogProblem(const Replay& replay, const RequestLog& log, FitOptions options)
      : replay_(replay), log_(log), options_(options) {}

  FitResult fitted(std::span<const FitConstant> constants, const Mask& mask) const {
    std::vector<double> measured;
    each(mask, [&](const LoggedRequest& r, std::size_t) {
      measured.push_back(r.first_token_s);
      if (r.output_tokens > 1) measured.push_back(tpot(r.first_token_s, r.last_token_s, r.output_tokens));
    });
    const FitModel model = [&](std::span<const double> values, std::span<double> predicted) {
      const Times times = replay_.run(values);
      std::size_t at = 0;
      each(mask, [&](const LoggedRequest& r, std::size_t i) {
        predicted[at++] = times.first(i);
        if (r.output_tokens > 1) predicted[at++] = tpot(times.first(i), times.last(i), r.output_tokens);
      });
    };
    return fit(constants, measured, model, options_);
  }

  /// Whether anything of the run changes where a constant is a fifth less or a quarter more.
  bool moves(std::vector<double> values, std::size_t constant, const FitConstant& range) const {
    const double found = values[constant];
    values[constant] = std::max(range.min, 0.8 * found);
    const Times least = replay_.run(values);
    values[constant] = std::min(range.max, 1.25 * found);
    const Times most = replay_.run(values);
    for (std::size_t i = 0; i < log_.requests.size(); ++i)
      if (least.first(i) != most.first(i) || least.last(i) != most.last(i)) return true;
    return false;
  }

  LogFit::Errors errors(std::span<const double> values, const Mask& mask) const {
    const Times times = replay_.run(values);
    LogFit::Errors out;
    double ttft[2] = {}, tpots[2] = {}, e2e[2] = {}, requests = 0, answers = 0;
    each(mask, [&](const LoggedRequest& r, std::size_t i) {
      ttft[0] += r.first_token_s, ttft[1] += times.first(i);
      e2e[0] += r.last_token_s, e2e[1] += times.last(i);
      out.ttft += std::abs(times.first(i) / r.first_token_s - 1);
      requests += 1;
      const double measured = tpot(r.first_token_s, r.last_token_s, r.output_tokens);
      if (!(measured > 0)) return;
      const double predicted = tpot(times.first(i), times.last(i), r.output_tokens);
      tpots[0] += measured, tpots[1] += predicted;
      out.tpot += std::abs(predicted / measured - 1);
      answers += 1;
    });
    out.ttft_mean = ttft[1] / ttft[0] - 1, out.e2e_mean = e2e[1] / e2e[0] - 1;
    out.tpot_mean = answers > 0 ? tpots[1] / tpots[0] - 1 : 0;
    out.ttft /= requests, out.tpot /= std::max(1.0, answers);
    return out;
  }

 private:
  template <class Visit>
  void each(const Mask& mask, Visit visit) const {
    for (std::size_t i = 0; i < log_.requests.size(); ++i)
      if (mask.empty() || mask[i] != 0) visit(log_.requests[i], i);
  }

  const Replay& replay_;
  const RequestLog& log_;
  FitOptions options_;
};

/// The fits with one stretch of the log left out give each constant's standard error.
void add_intervals(const LogProblem& problem, std::span<const FitConstant> found, std::size_t requests, LogFit& out) {
  std::vector<std::vector<double>> fits;
  for (std::size_t stretch = 0; stretch < kStretches; ++stretch) {
    Mask mask(requests, 1);
    for (std::size_t i = stretch * requests / kStretches; i < (stretch + 1) * requests / kStretches; ++i) mask[i] = 0;
    fits.push_back(problem.fitted(found, mask).values);
  }
  constexpr auto kN = static_cast<double>(kStretches);
  for (std::size_t c = 0; c < out.constants.size(); ++c) {
    double mean = 0, squares = 0;
    for (const auto& values : fits) mean += values[c] / kN;
    for (const auto& values : fits) squares += (values[c] - mean) * (values[c] - mean);
    const double error = std::sqrt((kN - 1) / kN * squares);
    out.constants[c].low = std::max(found[c].min, out.constants[c].fitted - kInterval * error);
    out.constants[c].high = std::min(found[c].max, out.constants[c].fitted + kInterval * error);
  }
}

sim::Node errors_node(const LogFit::Errors& e) {
  sim::Node node = sim::Node::object();
  node.set("ttft_mean", sim::Node::real(e.ttft_mean));
  node.set("tpot_mean", sim::Node::real(e.tpot_mean));
  node.set("e2e_mean", sim::Node::real(e.e2e_mean));
  node.set("ttft", sim::Node::real(e.ttft));
  node.set("tpot", sim::Node::real(e.tpot));
  return node;
}

}  // namespace

LogFit fit_to_log(const LogFitOptions& options, const Systems& systems) {
  if (options.constants.empty() || options.constants.size() > kMostConstants)
    sim::throw_fault({"--constant", ""},
                     fmt::format("expected 1 to {} constants, got {}", kMostConstants, options.constants.size()));
  const RequestLog log = read_request_log(options.log);
  const Replay replay(options, systems, log);
  const std::size_t requests = log.requests.size();
  std::vector<FitConstant> constants;
  std::vector<double> was;
  for (const Named& named : replay.constants()) {
    constants.push_back(named.range);
    was.push_back(named.was);
  }
  const LogProblem problem(replay, log, options.fit);
  const FitResult found = problem.fitted(constants, {});

  LogFit out;
  out.log_format = log.format, out.requests = requests, out.failed = log.failed;
  out.before = problem.errors(was, {});
  out.after = problem.errors(found.values, {});
  for (std::size_t c = 0; c < constants.size(); ++c) {
    const std::string unit = replay.constants()[c].unit;
    const bool idle = !problem.moves(found.values, c, constants[c]);
    out.constants.push_back({constants[c].path, unit, was[c], found.values[c], 0, 0, found.at_bound[c], idle});
    constants[c].start = found.values[c];
  }
  out.overrides = replay.overrides(out.constants);
  add_intervals(problem, constants, requests, out);
  Mask earlier(requests, 1), later(requests, 0);
  for (std::size_t i = requests * 2 / 3; i < requests; ++i) earlier[i] = 0, later[i] = 1;
  out.last_third = problem.errors(problem.fitted(constants, earlier).values, later);
  return out;
}

std::string log_fit_text(const LogFit& fit) {
  std::string text =
      fmt::format("log          {} requests ({}){}\n\n{:<36} {:>12} {:>12}   {}\n", fit.requests, fit.log_format,
                  fit.failed > 0 ? fmt::format(", {} failed and are left out", fit.failed) : "", "constant", "was",
                  "fitted", "95 % interval");
  for (const LogFit::Constant& c : fit.constants)
    if (c.idle) {
      text += fmt::format("{:<36} {:>12.4g} {:>12}   changes nothing of this run\n", c.path, c.was, "-");
    } else {
      text += fmt::format("{:<36} {:>12.4g} {:>12.4g}   {:.4g} to {:.4g} {}{}\n", c.path, c.was, c.fitted, c.low,
                          c.high, c.unit, c.at_bound ? ", at a bound of the search" : "");
    }
  text += fmt::format("\n{:<34} {:>9} {:>9} {:>9} {:>13} {:>13}\n", "error", "TTFT", "TPOT", "E2E", "TTFT, each",
                      "TPOT, each");
  const auto line = [&](const char* name, const LogFit::Errors& e) {
    text += fmt::format("{:<34} {:>+8.1f}% {:>+8.1f}% {:>+8.1f}% {:>12.1f}% {:>12.1f}%\n", name, 100 * e.ttft_mean,
                        100 * e.tpot_mean, 100 * e.e2e_mean, 100 * e.ttft, 100 * e.tpot);
  };
  line("before", fit.before);
  line("fitted", fit.after);
  line("last third, fitted to the others", fit.last_third);
  return text;
}

sim::Node log_fit_report(const LogFit& fit) {
  using sim::Node;
  Node root = Node::object(), constants = Node::array();
  for (const LogFit::Constant& c : fit.constants) {
    Node node = Node::object();
    node.set("path", Node::string(c.path));
    node.set("unit", Node::string(c.unit));
    node.set("was", Node::real(c.was));
    node.set("fitted", Node::real(c.fitted));
    node.set("low", Node::real(c.low));
    node.set("high", Node::real(c.high));
    node.set("at_bound", Node::boolean(c.at_bound));
    node.set("idle", Node::boolean(c.idle));
    constants.push(std::move(node));
  }
  root.set("log", Node::string(fit.log_format));
  root.set("requests", Node::integer(static_cast<std::int64_t>(fit.requests)));
  root.set("failed", Node::integer(static_cast<std::int64_t>(fit.failed)));
  root.set("constants", std::move(constants));
  root.set("before", errors_node(fit.before));
  root.set("after", errors_node(fit.after));
  root.set("last_third", errors_node(fit.last_third));
  return root;
}

}  // namespace orrery::experiments
