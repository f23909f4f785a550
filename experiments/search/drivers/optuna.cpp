// Optuna's samplers (TPE, NSGA-II, random) as a driver: another implementation to use or to compare with.
//
// Optuna runs in a Python process of its own (tools/python/orrery_search/optuna_driver.py) that is talked to in JSON
// lines; the interpreter is Debian's, or ORRERY_PYTHON. Parameters that do not count are drawn all the same and
// dropped; limits go to the sampler as its constraints. Needs the package python3-optuna (tools/setup optional).
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sim/child_process.hpp"
#include "experiments/base/experiment.hpp"
#include "experiments/search/driver.hpp"
#include "experiments/search/moves.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments::search {
namespace {

enum class Sampler : std::uint8_t { tpe, nsga2, random };
constexpr auto enum_names(Sampler) {
  using enum Sampler;
  return sim::names<Sampler>({{"tpe", tpe}, {"nsga2", nsga2}, {"random", random}});
}

using Json = nlohmann::json;
constexpr double kPatience = 120;  // seconds for an answer
constexpr const char* kHint = "install Debian's python3-optuna (tools/setup optional)";

struct OptunaParams {
  Sampler sampler = Sampler::tpe;

  static constexpr auto fields() {
    return sim::FieldTable{sim::field("sampler", &OptunaParams::sampler, "Sampler of Optuna.")};
  }
};

class OptunaDriver final : public Driver {
 public:
  OptunaDriver(const OptunaParams& params, const DriverSetup& setup)
      : space_(*setup.space), python_(interpreter()), process_({python_, script()}) {
    Json parameters = Json::array();
    for (const Parameter& p : space_.parameters())
      parameters.push_back({{"name", p.name},
                            {"kind", sim::to_string(p.kind)},
                            {"low", p.low},
                            {"high", p.high},
                            {"log", p.log},
                            {"choices", p.choices.size()}});
    sim::RandomStream random = setup.random;
    (void)call({{"parameters", parameters},
                {"objectives", setup.objectives},
                {"limits", setup.limits},
                {"sampler", sim::to_string(params.sampler)},
                {"seed", random.below(1U << 31)}});
  }

  std::vector<Proposal> ask(std::size_t most) override {
    asked_.clear();
    places_.clear();
    for (int round = 0; round < kRounds && asked_.empty(); ++round) {
      const Json points = call({{"ask", most}}).at("points");
      for (std::size_t i = 0; i < points.size(); ++i) {
        Point point = space_.canonical(points[i].get<std::vector<double>>());
        if (!space_.allowed(point)) continue;  // nothing is told of it: it counts as failed there
        asked_.push_back({std::move(point)});
        places_.push_back(i);
      }
    }
    return asked_;
  }

  void tell(std::span<const Trial> trials) override {
    const auto places = answered(space_, asked_, trials);
    Json all = Json::array();
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const Trial& trial = trials[i];
      Json point = Json::array();
      for (const double value : trial.proposal.point) point.push_back(std::isnan(value) ? Json() : Json(value));
      all.push_back({{"asked", places[i] ? Json(places_[*places[i]]) : Json()},
                     {"point", std::move(point)},
                     {"status", trial.result.ok() ? "ok" : "failed"},
                     {"objectives", trial.result.objectives},
                     {"margins", trial.result.margins}});
    }
    (void)call({{"tell", std::move(all)}});
  }

 private:
  static constexpr int kRounds = 200;  // batches in which nothing is allowed

  static std::string interpreter() {
    const char* chosen = std::getenv("ORRERY_PYTHON");
    std::string python = chosen != nullptr ? chosen : "/usr/bin/python3";
    if (!sim::find_program(python))
      sim::throw_fault({python, ""}, "expected a Python interpreter, found none",
                       "set ORRERY_PYTHON, or run tools/setup");
    if (sim::run_program({python, "-c", "import optuna"}, kPatience) != 0)
      sim::throw_fault({python, ""}, "expected the Python module optuna, found none", kHint);
    return python;
  }
  static std::string script() { return (home_folder() / "tools/python/orrery_search/optuna_driver.py").string(); }

  Json call(const Json& request) {
    const bool sent = process_.write(request.dump());
    const auto line = sent ? process_.read(kPatience) : std::nullopt;
    if (!line) sim::throw_fault({script(), ""}, "expected an answer of Optuna, got none", kHint);
    Json answer = Json::parse(*line, nullptr, false);
    if (answer.is_discarded()) sim::throw_fault({script(), ""}, "expected JSON, got " + *line);
    if (answer.contains("error")) sim::throw_fault({script(), ""}, "Optuna: " + answer["error"].get<std::string>());
    return answer;
  }

  const Space& space_;
  std::string python_;
  sim::LineProcess process_;
  std::vector<Proposal> asked_;
  std::vector<std::size_t> places_;  ///< of asked_ in Optuna's batch
};

}  // namespace

void add_optuna_driver(DriverRegistry& registry) {
  registry.add<OptunaParams>("optuna", "Optuna's samplers in a Python process (python3-optuna).",
                             [](const OptunaParams& params, const DriverSetup& setup) {
                               return std::make_unique<OptunaDriver>(params, setup);
                             });
}

}  // namespace orrery::experiments::search
