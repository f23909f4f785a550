// Rendezvous: agents on a line of cells meet in one cell; none sees all the others.
//
// Each agent steps left, stays or steps right, and sees its own cell and those of the next agents on either side in the
// row of agents (its own at the ends). Every step costs all of them the spread of their cells over the line's length;
// the episode ends when the spread is 0. With a spread of s at the start, ceil(s / 2) steps are the fewest possible:
// each step closes the gap between the outermost two by 2 at most. A toy for learners of several agents.
#include <algorithm>

#include "experiments/rl/core/env.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {
namespace {

struct RendezvousParams {
  std::int64_t agents = 3;
  std::int64_t cells = 9;
  std::int64_t max_steps = 20;

  static constexpr auto fields() {
    using P = RendezvousParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("agents", &P::agents, Unit::count, sim::between(2, 1000), "Number of agents."),
        sim::field("cells", &P::cells, Unit::count, sim::between(2, 1e6), "Length of the line in cells."),
        sim::field("max_steps", &P::max_steps, Unit::count, sim::between(1, 1e9), "Most steps of an episode."),
    };
  }
};

class Rendezvous final : public Env {
 public:
  explicit Rendezvous(const RendezvousParams& params) : params_(params) {
    for (std::int64_t i = 0; i < params.agents; ++i)
      spec_.agents.push_back({.name = "agent" + std::to_string(i),
                              .observation = {{"own", 0, 1}, {"left", 0, 1}, {"right", 0, 1}},
                              .action = ActionSpace::discrete(3)});
    spec_.info = {"fewest_steps"};
    cells_.resize(spec_.agents.size());
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    sim::RandomStream random(seed, "rl/rendezvous");
    do {
      for (std::int64_t& cell : cells_) cell = random.integer(0, params_.cells - 1);
    } while (spread() == 0);
    fewest_ = (spread() + 1) / 2;
    steps_ = 0;
    clear_step(spec_, out);
    show(out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    for (std::size_t i = 0; i < cells_.size(); ++i)
      cells_[i] = std::clamp<std::int64_t>(cells_[i] + static_cast<std::int64_t>(action[i]) - 1, 0, params_.cells - 1);
    ++steps_;
    clear_step(spec_, out);
    show(out);
    std::fill(out.rewards.begin(), out.rewards.end(),
              -static_cast<double>(spread()) / static_cast<double>(params_.cells - 1));
    out.terminated = spread() == 0;
    out.truncated = !out.terminated && steps_ >= params_.max_steps;
  }

 private:
  std::int64_t spread() const {
    const auto [low, high] = std::minmax_element(cells_.begin(), cells_.end());
    return *high - *low;
  }
  double place(std::size_t agent) const {
    return static_cast<double>(cells_[agent]) / static_cast<double>(params_.cells - 1);
  }
  void show(TimeStep& out) const {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      out.observation[3 * i] = place(i);
      out.observation[3 * i + 1] = place(i == 0 ? i : i - 1);
      out.observation[3 * i + 2] = place(i + 1 == cells_.size() ? i : i + 1);
    }
    out.info[0] = static_cast<double>(fewest_);
  }

  RendezvousParams params_;
  EnvSpec spec_;
  std::vector<std::int64_t> cells_;
  std::int64_t steps_ = 0, fewest_ = 0;
};

}  // namespace

void add_rendezvous_env(EnvRegistry& registry) {
  registry.add<RendezvousParams>(
      "rendezvous", "Agents on a line have to meet in one cell; none sees all the others.",
      [](const RendezvousParams& params, const Systems&) { return std::make_unique<Rendezvous>(params); });
}

}  // namespace orrery::experiments::rl
