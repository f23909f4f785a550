#include "experiments/rl/envs/serving_env.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "experiments/systems/serving/load/workload.hpp"
#include "experiments/systems/serving/system.hpp"
#include "sim/base/math.hpp"

namespace orrery::experiments::rl {

double squeezed(double x) {
  return sim::det_log1p(x);
}

/// Books the worth of requests as they end.
class ServingEnv::Meter final : public RunObserver {
 public:
  Meter(const ServingEnvParams& params, const ServingConfig& config, DecisionPort* port)
      : params_(params), slo_(config.slo), scale_(tick_scale(config.run.tick_s)), port_(port) {}

  void request_ended(const RequestRecord& record) override {
    ++ended;
    const double one = record.status == "completed" ? worth(record) : params_.rejected;
    if (params_.relative)
      all.push_back(one);
    else
      port_->add_reward(one);
  }
  double seconds(sim::Time time) const { return scale_.seconds(time); }
  std::int64_t ended = 0;
  std::vector<double> all;  ///< the worth of each request, where the whole counts

 private:
  double worth(const RequestRecord& record) const {
    const double ttft = scale_.seconds(*record.first_token - record.arrived);
    const double e2e = scale_.seconds(*record.finished - record.arrived);
    const auto tokens = static_cast<double>(record.output_tokens);
    switch (params_.reward) {
      case ServingReward::ttft:
        return -ttft;
      case ServingReward::e2e:
        return -e2e;
      case ServingReward::normalised:
        return -e2e / tokens;
      case ServingReward::slo:
        break;
    }
    const bool first = !slo_.ttft_s || ttft <= *slo_.ttft_s;
    const bool rest = !slo_.tbt_s || tokens < 2 || (e2e - ttft) / (tokens - 1) <= *slo_.tbt_s;
    return first && rest ? 1 : 0;
  }

  ServingEnvParams params_;
  SloParams slo_;
  sim::TickScale scale_;
  DecisionPort* port_;
};

/// A config without the learner, to compare an episode with.
struct ServingEnv::Rival {
  std::unique_ptr<ServingSetup> setup;
  std::optional<std::uint64_t> seed;  ///< whose draws it has been run on
  std::vector<double> worth;          ///< of each request in that run
  double joules = 0;
};

namespace {

double mean_of(std::span<const double> all) {
  double sum = 0;
  for (const double one : all) sum += one;
  return all.empty() ? 0 : sum / static_cast<double>(all.size());
}
/// Mean of the worst hundredth, at least one.
double worst_of(std::vector<double> all) {
  const std::size_t few = std::min(all.size(), std::max<std::size_t>(1, all.size() / 100));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(few), all.end());
  return mean_of(std::span(all).first(few));
}
/// By which share of it `own` is above `other`.
double gain(double own, double other) {
  return other == 0 ? own : (own - other) / std::abs(other);
}

void add_figures(const std::string& prefix, EnvSpec& spec) {
  for (const char* figure : {"mean_gain", "worst_gain", "energy_saved"}) spec.info.push_back(prefix + figure);
}

/// Throws std::invalid_argument for a name that figures cannot have, and for other requests or another clock.
void check_against(const AgainstParams& one, const EnvSpec& spec) {
  const bool word = !one.name.empty() && std::ranges::all_of(one.name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (!word)
    throw std::invalid_argument(
        fmt::format("'against': expected a name of letters, digits, '_' and '-', got '{}'", one.name));
  if (std::ranges::find(spec.info, one.name + "_mean_gain") != spec.info.end())
    throw std::invalid_argument(fmt::format("'against': two configs are named '{}'", one.name));
  if (!one.override_.is_object()) return;
  for (const char* section : {"workload", "run"})
    if (one.override_.find(section) != nullptr)
      throw std::invalid_argument(fmt::format(
          "'against' {}: expected the environment's requests and clock, got changes to '{}'", one.name, section));
}

/// Requests before the last window of the config's trace.
std::int64_t last_window(const ServingEnvParams& params, const ServingConfig& config) {
  if (params.windows == 1) return 0;
  if (!config.workload.trace) throw std::invalid_argument("expected a trace where 'windows' is above 1, got none");
  const auto source = open_workload(config, 1);
  std::int64_t count = 0;
  for (traces::TraceRecord record; source->next(record);) ++count;
  if (count <= params.requests)
    throw std::invalid_argument(fmt::format("expected a trace of more than {} requests for {} windows, got {}",
                                            params.requests, params.windows, count));
  return count - params.requests;
}

}  // namespace

sim::Node serving_config_of(std::string_view env, const std::string& file, const sim::Node& over) {
  constexpr const char* kClocks = R"({"machine": {"devices": [{"part": "catalog:a100-sxm4-80gb", "count": 1,
                                      "clocks": ["1.41 GHz", "1.11 GHz", "0.81 GHz"]}]}})";

  sim::Node root = sim::read_config(file.empty() ? home_folder() / "experiments/studies/first_light.json"
                                                 : std::filesystem::path(file));
  if (over.is_object())
    sim::merge_over(root, over);
  else if (env == "serving_clock" && file.empty())
    sim::merge_over(root, sim::parse_json(kClocks, "default"));
  return root;
}

ServingEnv::ServingEnv(std::string_view name, const ServingEnvParams& params, const Systems& systems,
                       const std::function<EnvSpec(const ServingConfig&)>& spec,
                       const std::function<void(ServingConfig&, const SharedPort&)>& install)
    : params_(params) {
  const sim::Node root = serving_config_of(name, params.config, params.override_);
  sim::Faults faults;
  ServingConfig config = read_serving_config(root, systems.registries(), faults);
  faults.throw_if_any();
  last_window_ = last_window(params_, config);
  spec_ = spec(config);
  spec_.info = {"time_s", "ended"};
  if (params_.relative) {
    add_figures("", spec_);
    rivals_.push_back({.setup = std::make_unique<ServingSetup>(config)});
  } else if (!params_.against.empty()) {
    throw std::invalid_argument("expected no 'against' without 'relative', which it is compared by");
  }
  for (const AgainstParams& one : params_.against) {
    check_against(one, spec_);
    add_figures(one.name + "_", spec_);
    sim::Node changed = root;
    if (one.override_.is_object()) sim::merge_over(changed, one.override_);
    const ServingConfig of = read_serving_config(changed, systems.registries(), faults);
    faults.throw_if_any();
    rivals_.push_back({.setup = std::make_unique<ServingSetup>(of)});
    if (rivals_.back().setup->infeasible())
      throw std::invalid_argument(
          fmt::format("'against' {}: {}", one.name, rivals_.back().setup->infeasible()->reason));
  }
  install(config, port_);
  meter_ = std::make_unique<Meter>(params_, config, port_.get());
  setup_ = std::make_unique<ServingSetup>(config);
  if (setup_->infeasible()) throw std::invalid_argument(setup_->infeasible()->reason);
}

ServingEnv::~ServingEnv() {
  port_->stop();  // before what it runs on
}

void ServingEnv::reset(std::uint64_t seed, TimeStep& out) {
  port_->stop();
  meter_->ended = 0;
  meter_->all.clear();
  for (Rival& rival : rivals_)
    if (rival.seed != seed) run_rival(rival, seed);  // learners whose episodes share draws ask for the same run again
  port_->start([this, seed] { joules_ = total_joules(setup_->run(meter_.get(), {}, change(seed))); });
  advance(out);
  out.rewards.assign(out.rewards.size(), 0);  // nothing has been decided
}

void ServingEnv::run_rival(Rival& rival, std::uint64_t seed) {
  rival.joules = total_joules(rival.setup->run(meter_.get(), {}, change(seed)));
  rival.worth = std::exchange(meter_->all, {});
  rival.seed = seed;
  meter_->ended = 0;
}

void ServingEnv::step(std::span<const double> action, TimeStep& out) {
  port_->act(action);
  advance(out);
}

RunChange ServingEnv::change(std::uint64_t seed) const {
  RunChange change;
  change.replication = static_cast<std::int64_t>(seed >> 1);  // a seed of 64 bits, a number of 63
  change.requests = params_.requests;
  if (params_.windows > 1)
    change.skip = last_window_ * static_cast<std::int64_t>(seed % static_cast<std::uint64_t>(params_.windows)) /
                  (params_.windows - 1);
  return change;
}

void ServingEnv::advance(TimeStep& out) {
  clear_step(spec_, out);
  const bool over = !port_->go_on(out);
  out.terminated = over;
  out.rewards[0] = params_.relative ? 0 : port_->reward();  // there the whole counts, and only at the end
  if (params_.relative && over) {
    const double mean = mean_of(meter_->all), worst = worst_of(meter_->all);
    for (std::size_t i = 0; i < rivals_.size(); ++i) {
      out.info[2 + 3 * i] = gain(mean, mean_of(rivals_[i].worth));
      out.info[3 + 3 * i] = gain(worst, worst_of(rivals_[i].worth));
      out.info[4 + 3 * i] = gain(-joules_, -rivals_[i].joules);
    }
    out.rewards[0] = out.info[2] + params_.tail * out.info[3] + params_.energy * out.info[4];
  }
  out.info[0] = meter_->seconds(port_->now());
  out.info[1] = static_cast<double>(meter_->ended);
}

}  // namespace orrery::experiments::rl
