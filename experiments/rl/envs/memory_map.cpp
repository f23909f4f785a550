// Memory mapping: buffers with known lifetimes are placed in one arena, one a step, each at the lowest offset that is
// free; the learner says which is next. Every smallest plan comes from some order (policies/memory/ordered.hpp).
//
// The buffers come from a file as `orrery plan` reads it, or are drawn for each episode: lifetimes of up to a quarter
// of the steps, sizes log-uniform over two decades. Of each buffer it shows begin, end (shares of all steps), size (as
// a share of the lower bound) and whether it is placed. The reward is what a placement adds to the peak, over the lower
// bound, negated, so that an episode's return is -peak / bound (-1 is perfect). Every buffer is judged alike
// (AgentSpec::per_choice). The figure `over_largest` is the peak over that of the largest that is left first, which is
// the rule that advises.
#include <algorithm>
#include <stdexcept>

#include "experiments/base/buffer_file.hpp"
#include "experiments/rl/core/env.hpp"
#include "policies/memory/ordered.hpp"
#include "sim/base/math.hpp"
#include "sim/base/random.hpp"

namespace orrery::experiments::rl {
namespace {

constexpr std::size_t kMostBuffers = 512, kOfBuffer = 4;

struct MemoryMapParams {
  std::string file;
  std::int64_t buffers = 16, steps = 32;

  static constexpr auto fields() {
    using P = MemoryMapParams;
    using sim::Unit;
    return sim::FieldTable{
        sim::field("file", &P::file, Unit::path, sim::any_value(),
                   "Table of buffers; empty: buffers are drawn at random."),
        sim::field("buffers", &P::buffers, Unit::count, sim::between(1, kMostBuffers),
                   "Buffers of an episode, if they are drawn."),
        sim::field("steps", &P::steps, Unit::count, sim::between(4, 1e6), "Steps over which drawn buffers live."),
    };
  }
};

class MemoryMap final : public Env {
 public:
  explicit MemoryMap(const MemoryMapParams& params) : params_(params) {
    if (!params.file.empty()) buffers_ = read_buffers(params.file).buffers;
    const std::size_t n = params.file.empty() ? static_cast<std::size_t>(params.buffers) : buffers_.size();
    if (n == 0 || n > kMostBuffers)
      throw std::invalid_argument("expected a table of 1 to 512 buffers, got " + std::to_string(n));
    AgentSpec agent{
        .name = "planner", .action = ActionSpace::discrete(static_cast<std::int64_t>(n)), .per_choice = kOfBuffer};
    for (std::size_t i = 0; i < n; ++i)
      for (const char* name : {"begin", "end", "size", "placed"})
        agent.observation.push_back({std::string(name) + "_" + std::to_string(i), 0, 1});
    spec_ = {.agents = {std::move(agent)},
             .masked = true,
             .info = {"peak_over_bound", "over_largest"},
             .rule = "largest first"};
  }

  const EnvSpec& spec() const override { return spec_; }

  void reset(std::uint64_t seed, TimeStep& out) override {
    if (params_.file.empty()) draw(sim::RandomStream(seed, "rl/memory_map"));
    bound_ = static_cast<double>(std::max<std::int64_t>(1, policies::lower_bound(buffers_)));
    last_step_ = 1;
    for (const policies::Buffer& buffer : buffers_) last_step_ = std::max(last_step_, buffer.end);
    order_.clear();
    placed_.assign(buffers_.size(), 0);
    while (order_.size() < buffers_.size()) {
      order_.push_back(largest());
      placed_[order_.back()] = 1;
    }
    largest_first_ = peak();
    order_.clear();
    placed_.assign(buffers_.size(), 0);
    peak_ = 0;
    show(out);
  }

  void step(std::span<const double> action, TimeStep& out) override {
    const auto chosen = static_cast<std::uint32_t>(action[0]);
    order_.push_back(chosen);
    placed_[chosen] = 1;
    const std::int64_t before = peak_;
    peak_ = peak();
    show(out);
    out.rewards[0] = -static_cast<double>(peak_ - before) / bound_;
    out.terminated = order_.size() == buffers_.size();
    if (out.terminated) out.info[1] = static_cast<double>(peak_) / static_cast<double>(largest_first_);
  }

 private:
  void draw(sim::RandomStream random) {
    buffers_.assign(static_cast<std::size_t>(params_.buffers), {});
    for (policies::Buffer& buffer : buffers_) {
      buffer.begin = random.integer(0, params_.steps - 1);
      const std::int64_t life = random.integer(1, std::max<std::int64_t>(1, params_.steps / 4));
      buffer.end = std::min(params_.steps, buffer.begin + life);
      buffer.bytes = static_cast<std::int64_t>(1024 * sim::det_exp(random.uniform(0, sim::det_log(100.0))));
    }
  }

  /// Of those that are left; of equals the first.
  std::uint32_t largest() const {
    std::size_t best = buffers_.size();
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (placed_[i] == 0 && (best == buffers_.size() || buffers_[i].bytes > buffers_[best].bytes)) best = i;
    return static_cast<std::uint32_t>(best);
  }
  std::int64_t peak() const {
    std::vector<policies::Buffer> chosen;
    std::vector<std::uint32_t> order;
    for (const std::uint32_t index : order_) {
      order.push_back(static_cast<std::uint32_t>(chosen.size()));
      chosen.push_back(buffers_[index]);
      chosen.back().in_place_of.reset();
    }
    return policies::peak_of(chosen, policies::place_in_order(chosen, order));
  }

  void show(TimeStep& out) const {
    clear_step(spec_, out);
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const policies::Buffer& buffer = buffers_[i];
      const std::span<double> seen = std::span(out.observation).subspan(i * kOfBuffer, kOfBuffer);
      seen[0] = static_cast<double>(buffer.begin) / static_cast<double>(last_step_);
      seen[1] = static_cast<double>(buffer.end) / static_cast<double>(last_step_);
      seen[2] = static_cast<double>(buffer.bytes) / bound_;
      seen[3] = placed_[i];
      out.mask[i] = placed_[i] == 0 ? 1 : 0;
    }
    out.info[0] = static_cast<double>(peak_) / bound_;
    if (order_.size() < buffers_.size()) out.advice[0] = largest();
  }

  MemoryMapParams params_;
  EnvSpec spec_;
  std::vector<policies::Buffer> buffers_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint8_t> placed_;
  double bound_ = 1;
  std::int64_t last_step_ = 1, peak_ = 0, largest_first_ = 0;
};

}  // namespace

void add_memory_map_env(EnvRegistry& registry) {
  registry.add<MemoryMapParams>(
      "memory_map", "Chooses which buffer is placed next in an arena.",
      [](const MemoryMapParams& params, const Systems&) { return std::make_unique<MemoryMap>(params); });
}

}  // namespace orrery::experiments::rl
