// pagmo2's evolutionary algorithms as a driver: another implementation to use or to compare with.
//
// pagmo's algorithms call the objective; a driver is asked. So the algorithm runs on a thread of its own that stops in
// its objective until the answer is told; the two threads never run at once, so proposals are a pure function of seed
// and answers. Everything is a number in the unit cube there. What did not run or breaks a limit is worse than all that
// was seen. libpagmo itself is in a module (pagmo_module.hpp), which is built where libpagmo-dev is found and loaded
// when a driver is made; without it the driver says what to install.
#include <dlfcn.h>
#include <fmt/format.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "experiments/search/driver.hpp"
#include "experiments/search/drivers/pagmo_module.hpp"
#include "experiments/search/moves.hpp"
#include "sim/base/enum_names.hpp"
#include "sim/base/home.hpp"

namespace orrery::experiments::search {

constexpr auto enum_names(PagmoAlgorithm) {
  using enum PagmoAlgorithm;
  return sim::names<PagmoAlgorithm>(
      {{"auto", automatic}, {"nsga2", nsga2}, {"sade", sade}, {"cmaes", cmaes}, {"pso", pso}});
}

namespace {

struct PagmoParams {
  PagmoAlgorithm algorithm = PagmoAlgorithm::automatic;
  std::int64_t population = 40;

  static constexpr auto fields() {
    using P = PagmoParams;
    return sim::FieldTable{
        sim::field("algorithm", &P::algorithm,
                   "Algorithm of pagmo2; auto: nsga2 for several objectives, sade for one."),
        sim::field("population", &P::population, sim::Unit::count, sim::between(8, 100'000),
                   "Points of a generation; a multiple of four."),
    };
  }
};

/// Thrown through pagmo when the driver goes.
struct Ended {};

/// What passes between the algorithm's thread and the driver.
class Channel {
 public:
  /// Algorithm: hands over points and waits for their fitness.
  std::vector<double> evaluate(std::vector<double> points) {
    std::unique_lock lock(mutex_);
    points_ = std::move(points);
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return ended_ || answered_; });
    if (ended_) throw Ended{};
    answered_ = false;
    return std::move(answer_);
  }
  /// Driver: the points that the algorithm waits for; empty if it has ended.
  std::vector<double> points() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ || over_; });
    return over_ ? std::vector<double>{} : points_;
  }
  void answer(std::vector<double> fitness) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(fitness);
    answered_ = true;
    waiting_ = false;
    changed_.notify_all();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  void over() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<double> points_, answer_;
  bool waiting_ = false, answered_ = false, ended_ = false, over_ = false;
};

#ifdef ORRERY_PAGMO
constexpr bool kBuilt = true;
#else
constexpr bool kBuilt = false;
#endif

/// The module's function; it stays loaded.
PagmoEvolve load_evolve() {
  if (!kBuilt)
    sim::throw_fault({"pagmo", ""}, "expected a build with pagmo, this one has none",
                     "install Debian's libpagmo-dev (tools/setup optional) and build again");
  const std::filesystem::path file = sim::module_file(kPagmoModule);
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* evolve = module != nullptr ? dlsym(module, kPagmoEvolve) : nullptr;
  if (evolve == nullptr)
    sim::throw_fault({"pagmo", ""}, fmt::format("its module cannot be loaded: {}", dlerror()),
                     "install Debian's libpagmo8, or build and install again");
  return reinterpret_cast<PagmoEvolve>(evolve);
}

class PagmoDriver final : public Driver {
 public:
  PagmoDriver(const PagmoParams& params, const DriverSetup& setup)
      : space_(*setup.space), objectives_(setup.objectives), channel_(std::make_shared<Channel>()) {
    const bool several = objectives_ > 1;
    PagmoAlgorithm which = params.algorithm;
    if (which == PagmoAlgorithm::automatic) which = several ? PagmoAlgorithm::nsga2 : PagmoAlgorithm::sade;
    if (several && which != PagmoAlgorithm::nsga2)
      sim::throw_fault({"pagmo", "/algorithm"}, "expected nsga2 for several objectives");
    if (!several && which == PagmoAlgorithm::nsga2)
      sim::throw_fault({"pagmo", "/algorithm"}, "expected an algorithm for one objective: sade, cmaes or pso");
    sim::RandomStream random = setup.random;
    const auto seed = static_cast<unsigned>(random.below(1U << 31));
    const auto population = static_cast<std::size_t>(params.population + 3) / 4 * 4;
    PagmoEvolution evolution{
        .algorithm = which,
        .parameters = space_.size(),
        .objectives = objectives_,
        .population = population,
        .seed = seed,
        .evaluate = [channel = channel_](std::vector<double> points) { return channel->evaluate(std::move(points)); }};
    thread_ = std::thread([channel = channel_, evolve = load_evolve(), evolution = std::move(evolution)] {
      try {
        evolve(evolution);
      } catch (const Ended&) {
      } catch (const std::exception&) {  // pagmo refuses: nothing more to propose
      }
      channel->over();
    });
  }
  ~PagmoDriver() override {
    channel_->end();
    thread_.join();
  }

  std::vector<Proposal> ask(std::size_t most) override {
    for (int round = 0; round < kRounds; ++round) {
      if (next_ == points_.size()) fetch();
      if (points_.empty()) return {};
      first_ = next_;
      asked_.clear();
      while (asked_.size() < most && next_ < points_.size()) asked_.push_back({points_[next_++]});
      std::vector<Proposal> allowed;
      for (const Proposal& proposal : asked_)
        if (space_.allowed(proposal.point)) allowed.push_back(proposal);
      if (!allowed.empty()) return allowed;
      finish();
    }
    return {};
  }

  void tell(std::span<const Trial> trials) override {
    const auto places = answered(space_, asked_, trials);
    for (std::size_t i = 0; i < trials.size(); ++i)
      if (places[i]) results_[first_ + *places[i]] = trials[i].result;
    finish();
  }

 private:
  static constexpr int kRounds = 2000;  // batches in which nothing is allowed

  void fetch() {
    const std::vector<double> cube = channel_->points();
    points_.clear();
    for (std::size_t i = 0; i + space_.size() <= cube.size(); i += space_.size())
      points_.push_back(space_.from_units(std::span(cube).subspan(i, space_.size())));
    results_.assign(points_.size(), Evaluation{.status = TrialStatus::infeasible});
    next_ = 0;
  }

  /// Answers the algorithm when all its points have been handed out.
  void finish() {
    if (next_ < points_.size() || points_.empty()) return;
    for (const Evaluation& result : results_)
      if (result.feasible())
        for (const double value : result.objectives) worst_ = std::max(worst_, value);
    std::vector<double> fitness;
    for (const Evaluation& result : results_)
      for (std::size_t o = 0; o < objectives_; ++o)
        fitness.push_back(result.feasible() ? result.objectives[o]
                          : result.ok()     ? worst_ + std::abs(worst_) + 1 + result.violation()
                                            : 1e12 * (1 + std::abs(worst_)));
    points_.clear();
    next_ = 0;
    channel_->answer(std::move(fitness));
  }

  const Space& space_;
  std::size_t objectives_;
  std::shared_ptr<Channel> channel_;
  std::thread thread_;
  std::vector<Point> points_;
  std::vector<Evaluation> results_;
  std::vector<Proposal> asked_;
  std::size_t next_ = 0, first_ = 0;
  double worst_ = 0;
};

std::unique_ptr<Driver> make_pagmo(const PagmoParams& params, const DriverSetup& setup) {
  return std::make_unique<PagmoDriver>(params, setup);
}

}  // namespace

void add_pagmo_driver(DriverRegistry& registry) {
  registry.add<PagmoParams>("pagmo", "pagmo2's algorithms (where the build found libpagmo-dev).", make_pagmo);
}

}  // namespace orrery::experiments::search
