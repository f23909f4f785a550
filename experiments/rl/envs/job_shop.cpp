// The job shop as an environment: an action dispatches a job's next operation; jobs that are done are masked.
//
// Each step pays minus the growth of the schedule's bound over the bound of the empty schedule, so that an episode's
// sum is 1 - makespan / bound: 0 is as good as no schedule can beat (a reward of this kind: Zhang et al., "Learning to
// dispatch for job shop scheduling via deep reinforcement learning", NeurIPS 2020). An agent sees of every job its
// share of operations done, when it is ready, the work it has left, its next operation's machine (one-hot) and
// duration, and when that would start; of every machine when it is free, and the work left for it. Times count from
// the earliest start of any operation and are shares of the first bound.
#include "experiments/rl/envs/job_shop.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "experiments/rl/core/env.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments::rl {

JobShop random_job_shop(std::size_t jobs, std::size_t machines, sim::RandomStream random) {
  JobShop shop{machines, {}};
  std::vector<std::size_t> order(machines);
  for (std::size_t job = 0; job < jobs; ++job) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    random.shuffle(std::span(order));
    auto& operations = shop.jobs.emplace_back();
    for (const std::size_t machine : order) operations.push_back({machine, random.integer(1, 99)});
  }
  return shop;
}

JobShop ft06_job_shop() {
  return {6,
          {{{2, 1}, {0, 3}, {1, 6}, {3, 7}, {5, 3}, {4, 6}},
           {{1, 8}, {2, 5}, {4, 10}, {5, 10}, {0, 10}, {3, 4}},
           {{2, 5}, {3, 4}, {5, 8}, {0, 9}, {1, 1}, {4, 7}},
           {{1, 5}, {0, 5}, {2, 5}, {3, 3}, {4, 8}, {5, 9}},
           {{2, 9}, {1, 3}, {4, 5}, {5, 4}, {0, 3}, {3, 1}},
           {{1, 3}, {3, 3}, {5, 9}, {0, 10}, {4, 4}, {2, 1}}}};
}

void JobShopSchedule::reset(const JobShop& shop) {
  shop_ = &shop;
  next_.assign(shop.jobs.size(), 0);
  job_ready_.assign(shop.jobs.size(), 0);
  job_left_.assign(shop.jobs.size(), 0);
  machine_free_.assign(shop.machines, 0);
  machine_left_.assign(shop.machines, 0);
  left_ = 0;
  for (std::size_t job = 0; job < shop.jobs.size(); ++job)
    for (const JobShopOperation& operation : shop.jobs[job]) {
      job_left_[job] += operation.duration;
      machine_left_[operation.machine] += operation.duration;
      ++left_;
    }
}

std::int64_t JobShopSchedule::start(std::size_t job) const {
  return std::max(job_ready_[job], machine_free_[shop_->jobs[job][next_[job]].machine]);
}

void JobShopSchedule::dispatch(std::size_t job) {
  const JobShopOperation operation = shop_->jobs[job][next_[job]];
  const std::int64_t end = start(job) + operation.duration;
  job_ready_[job] = machine_free_[operation.machine] = end;
  job_left_[job] -= operation.duration;
  machine_left_[operation.machine] -= operation.duration;
  ++next_[job];
  --left_;
}

std::int64_t JobShopSchedule::bound() const {
  std::int64_t most = 0;
  for (std::size_t job = 0; job < next_.size(); ++job) most = std::max(most, job_ready_[job] + job_left_[job]);
  for (std::size_t m = 0; m < machine_free_.size(); ++m) most = std::max(most, machine_free_[m] + machine_left_[m]);
  return most;
}

std::size_t job_shop_rule(const std::string& rule, const JobShop& shop, const JobShopSchedule& schedule) {
  const auto key = [&](std::size_t job) {
    if (rule == "spt") return shop.jobs[job][schedule.next(job)].duration;
    if (rule == "mwkr") return -schedule.job_left(job);
    if (rule == "fifo") return schedule.start(job);
    throw std::invalid_argument("unknown rule of job shops: " + rule);
  };
  std::size_t best = shop.jobs.size();
  for (std::size_t job = 0; job < shop.jobs.size(); ++job)
    if (!schedule.job_done(job) && (best == shop.jobs.size() || key(job) < key(best))) best = job;
  return best;
}

namespace {

enum class Instance : std::uint8_t { random, ft06 };
constexpr auto enum_names(Instance) {
  using enum Instance;
  return sim::names<Instance>({{"random", random}, {"ft06", ft06}});
}

enum class Rule : std::uint8_t { spt, mwkr, fifo };
constexpr auto enum_names(Rule) {
  using enum Rule;
  return sim::names<Rule>({{"spt", spt}, {"mwkr", mwkr}, {"fifo", fifo}});
}

struct JobShopParams {
  Instance instance = Instance::random;
  std::int64_t jobs = 5, machines = 5, instance_seed = 1;
  bool fresh = false;
  Rule rule = Rule::mwkr;

  static constexpr auto fields() {
    using P = JobShopParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("instance", &P::instance, "Instance: random operations, or Fisher and Thompson's 6x6 (ft06)."),
        sim::field("jobs", &P::jobs, Unit::count, sim::between(1, 1000), "Jobs of a random instance."),
        sim::field("machines", &P::machines, Unit::count, sim::between(1, 1000), "Machines of a random instance."),
        sim::field("instance_seed", &P::instance_seed, Unit::none, sim::at_least(0), "Seed of a random instance."),
        sim::field("fresh", &P::fresh, "Whether every episode has a random instance of its own."),
        sim::field("rule", &P::rule,
                   "Rule that advises the learner: shortest operation (spt), most work remaining (mwkr), or the job "
                   "that can start first (fifo)."),
    };
  }
};

class JobShopEnv final : public Env {
 public:
  explicit JobShopEnv(const JobShopParams& params) : params_(params) {
    if (params.instance == Instance::ft06 && params.fresh)
      throw std::invalid_argument("'fresh' needs random instances, got ft06");
    shop_ = params.instance == Instance::ft06
                ? ft06_job_shop()
                : draw(sim::RandomStream(static_cast<std::uint64_t>(params.instance_seed), "rl/job_shop/instance"));
    AgentSpec agent{.name = "dispatcher", .action = ActionSpace::discrete(static_cast<std::int64_t>(jobs()))};
    for (std::size_t job = 0; job < jobs(); ++job) {
      const std::string name = "job" + std::to_string(job);
      for (const char* what : {"_done", "_ready", "_left", "_duration", "_start"})
        agent.observation.push_back({name + what, 0, kMost});
      for (std::size_t m = 0; m < shop_.machines; ++m)
        agent.observation.push_back({name + "_on" + std::to_string(m), 0, 1});
    }
    for (std::size_t m = 0; m < shop_.machines; ++m)
      for (const char* what : {"_free", "_left"})
        agent.observation.push_back({"machine" + std::to_string(m) + what, 0, kMost});
    spec_.agents.push_back(std::move(agent));
    spec_.masked = true;
    spec_.info = {"makespan", "bound"};
    spec_.rule = sim::to_string(params.rule);
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    if (params_.fresh) shop_ = draw(sim::RandomStream(seed, "rl/job_shop"));
    schedule_.reset(shop_);
    first_bound_ = schedule_.bound();
    clear_step(spec_, out);
    show(out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const std::int64_t before = schedule_.bound();
    schedule_.dispatch(static_cast<std::size_t>(action[0]));
    clear_step(spec_, out);
    show(out);
    out.rewards[0] = -static_cast<double>(schedule_.bound() - before) / static_cast<double>(first_bound_);
    out.terminated = schedule_.done();
    if (out.terminated) out.info[0] = static_cast<double>(schedule_.bound());
  }

 private:
  // A schedule ends within the sum of all durations, which is at most jobs times the first bound (1000).
  static constexpr double kMost = 1000;

  std::size_t jobs() const { return shop_.jobs.size(); }
  JobShop draw(sim::RandomStream random) const {
    return random_job_shop(static_cast<std::size_t>(params_.jobs), static_cast<std::size_t>(params_.machines),
                           std::move(random));
  }

  void show(TimeStep& out) const {
    std::int64_t now = schedule_.bound();
    for (std::size_t job = 0; job < jobs(); ++job)
      if (!schedule_.job_done(job)) now = std::min(now, schedule_.start(job));
    const auto share = [&](std::int64_t time) {
      return static_cast<double>(std::max<std::int64_t>(0, time)) / static_cast<double>(first_bound_);
    };
    double* at = out.observation.data();
    for (std::size_t job = 0; job < jobs(); ++job) {
      const std::size_t next = schedule_.next(job);
      const bool done = schedule_.job_done(job);
      *at++ = static_cast<double>(next) / static_cast<double>(shop_.jobs[job].size());
      *at++ = share(schedule_.job_ready(job) - now);
      *at++ = share(schedule_.job_left(job));
      *at++ = done ? 0 : share(shop_.jobs[job][next].duration);
      *at++ = done ? 0 : share(schedule_.start(job) - now);
      if (!done) at[shop_.jobs[job][next].machine] = 1;
      at += shop_.machines;
      out.mask[job] = done ? 0 : 1;
    }
    for (std::size_t m = 0; m < shop_.machines; ++m) {
      *at++ = share(schedule_.machine_free(m) - now);
      *at++ = share(schedule_.machine_left(m));
    }
    out.info[1] = static_cast<double>(first_bound_);
    if (!schedule_.done())
      out.advice[0] = static_cast<double>(job_shop_rule(std::string(sim::to_string(params_.rule)), shop_, schedule_));
  }

  JobShopParams params_;
  JobShop shop_;
  JobShopSchedule schedule_;
  EnvSpec spec_;
  std::int64_t first_bound_ = 1;
};

}  // namespace

void add_job_shop_env(EnvRegistry& registry) {
  registry.add<JobShopParams>(
      "job_shop", "Dispatch the jobs of a shop so that the last one finishes early.",
      [](const JobShopParams& params, const Systems&) { return std::make_unique<JobShopEnv>(params); });
}

}  // namespace orrery::experiments::rl
