#include "experiments/uneven/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/figure_table.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/uneven/prices.hpp"

namespace orrery::experiments {
namespace uneven {
namespace {

using sim::Node;

struct Result {
  const Prices& prices;
  std::int64_t batches = 0;
  double seconds = 0, bound_s = 0, tokens = 0, micro_batches = 0, groups = 0, longest = 0;
  double chunks = 0, left_out = 0;
  std::vector<double> token_share;  ///< by the logarithm of the degree
  double of_batches(double sum) const { return sum / static_cast<double>(batches); }
};

const FigureTable<Result>& result_table() {
  using R = Result;
  static const FigureTable<R> table{
      {"status", "", "`ok` or `infeasible`.", [](const R&) { return std::string("ok"); }},
      {"iteration_s", "s", "Time of a step, mean over batches.", [](const R& r) { return r.of_batches(r.seconds); }},
      {"bound_s", "s",
       "Lower bound of the step: all devices equally busy, no all-to-all, and as few micro-batches as memory allows.",
       [](const R& r) { return r.of_batches(r.bound_s); }},
      {"tokens_per_s", "1/s", "Tokens of all batches per second.", [](const R& r) { return r.tokens / r.seconds; }},
      {"batch.{tokens,longest}", "tokens", "Mean tokens of a batch; tokens of the longest sequence of all.",
       [](const R& r) { return r.of_batches(r.tokens); }, [](const R& r) { return r.longest; }},
      {"batch.chunks", "count", "Mean sequences of a batch that are chunks of longer ones (workload.beyond).",
       [](const R& r) { return r.of_batches(r.chunks); }},
      {"batch.left_out_tokens", "tokens",
       "Mean tokens drawn for a batch and not trained on: sequences drawn again, what was cut off, and chunks beyond "
       "the "
       "batch.",
       [](const R& r) { return r.of_batches(r.left_out); }},
      {"batch.{micro_batches,groups}", "", "Mean micro-batches of a batch; mean groups of a micro-batch.",
       [](const R& r) { return r.of_batches(r.micro_batches); }, [](const R& r) { return r.groups / r.micro_batches; }},
      {"token_share.*", "ratio", "Share of tokens in groups of this many devices.",
       [](const R& r) {
         Node all = Node::object();
         for (std::size_t k = 0; k < r.token_share.size(); ++k)
           all.set(fmt::format("{}", std::int64_t{1} << k), Node::real(r.token_share[k] / r.tokens));
         return all;
       }},
      {"costs.{square_s,linear_s,fixed_s,least_s,update_s}", "s",
       "Costs per token times token, per token, and per micro-batch on top. `least_s`: shortest time of a micro-batch "
       "beside `fixed_s` (gathers and reductions of parameters, launches). `update_s`: the optimizer step, once per "
       "step.",
       [](const R& r) { return r.prices.costs.square_s; }, [](const R& r) { return r.prices.costs.linear_s; },
       [](const R& r) { return r.prices.costs.fixed_s; }, [](const R& r) { return r.prices.costs.floor_s; },
       [](const R& r) { return r.prices.update_s; }},
      {"costs.device_tokens", "tokens", "Tokens that fit in the memory of a device.",
       [](const R& r) { return r.prices.costs.device_tokens; }},
      {"costs.fit_error", "ratio",
       "Largest relative error of square_s and linear_s on the passes that they are fitted to; 0 if costs are stated.",
       [](const R& r) { return r.prices.fit_error; }},
      {"costs.exchange_s.*", "s", "All-to-all time per token in groups of this many devices.", [](const R& r) {
         Node all = Node::object();
         for (std::size_t k = 0; k < r.prices.costs.exchange_s.size(); ++k)
           all.set(fmt::format("{}", std::int64_t{1} << k), Node::real(r.prices.costs.exchange_s[k]));
         return all;
       }}};
  return table;
}

class UnevenExperiment final : public ConfigExperiment {
 public:
  explicit UnevenExperiment(UnevenConfig config) : config_(std::move(config)), params_(config_.params) {
    seed_ = params_.run.seed;
    resolved_ = config_.resolved;
    if (config_.training) inputs_ = config_.training->inputs;
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    const auto& training = config_.training;
    return {{"machine", fmt::format("{} {}", config_.devices, training ? training->machine.device.name : "devices")},
            {"costs", training ? "priced for " + training->model.forward.name : "as stated"},
            {"batch", fmt::format("{} sequences, lengths {}, longest {} ({} beyond it)", params_.workload.batch,
                                  params_.workload.lengths.name, params_.workload.longest,
                                  sim::to_string(params_.workload.beyond))},
            {"groups", params_.policies.groups.name}};
  }

  Outcome run(const RunSink& sink) const override {
    Prices prices;
    if (config_.training)
      training::priced_or_fault(config_.file,
                                [&] { prices = priced(*config_.training, params_.plan, params_.workload.longest); });
    else
      prices = stated_prices(*params_.costs);
    if (!prices.obstacle.empty()) return Outcome::infeasible(prices.obstacle);
    const policies::SequenceCosts& costs = prices.costs;
    if (!(costs.device_tokens >= 1)) return Outcome::infeasible("model states leave no memory for a token");
    std::unique_ptr<BufferedFile> file;
    if (sink.folder) {
      file = std::make_unique<BufferedFile>(*sink.folder / "groups.csv");
      file->buffer() += "batch,micro_batch,degree,sequences,tokens,time_s\n";
    }
    const auto policy = params_.policies.groups.make();
    Result result{.prices = prices};
    result.token_share.assign(costs.exchange_s.size(), 0);
    for (std::int64_t b = 0; b < params_.workload.batches; ++b) {
      const Drawn drawn = draw(b);
      const std::vector<std::int64_t>& lengths = drawn.lengths;
      result.chunks += static_cast<double>(drawn.chunks);
      result.left_out += static_cast<double>(drawn.left_out);
      const policies::SequenceView view{lengths, config_.devices, &costs};
      const policies::BatchPlan plan = policy->plan(view);
      if (plan.empty()) {
        if (file) file->close();
        return Outcome::infeasible(fmt::format("no plan for a sequence of {} tokens: a device has memory for {:.0f}",
                                               lengths.front(), costs.device_tokens));
      }
      if (const std::string why = check_plan(view, plan); !why.empty())
        throw std::logic_error(params_.policies.groups.name + ": " + why);
      add(result, view, plan);
      if (file) write(*file, b, view, plan);
      if (sink.progress) sink.progress({.done = b + 1, .total = params_.workload.batches, .what = "batches"});
    }
    if (file) file->close();
    return {.summary = result_table().written(result), .events = static_cast<std::uint64_t>(result.batches)};
  }

 private:
  struct Drawn {
    std::vector<std::int64_t> lengths;  ///< longest first
    std::int64_t chunks = 0, left_out = 0;
  };

  Drawn draw(std::int64_t batch) const {
    sim::RandomStream random =
        sim::RandomStream(static_cast<std::uint64_t>(seed_), "lengths").child(static_cast<std::uint64_t>(batch));
    const WorkloadParams& workload = params_.workload;
    const auto sampler = workload.lengths.make();
    Drawn drawn;
    constexpr int kTries = 1'000'000;
    int tries = 0;
    while (std::ssize(drawn.lengths) < workload.batch) {
      std::int64_t length = sampler->sample(random).prompt_tokens;
      if (length <= workload.longest) {
        drawn.lengths.push_back(length);
        continue;
      }
      if (workload.beyond == BeyondLongest::redraw) {
        drawn.left_out += length;
        if (++tries > kTries)
          sim::throw_fault({"workload", "/workload/longest"},
                           "expected a length that is drawn now and then: a million draws were longer",
                           "workload.beyond can cut or chunk them");
        continue;
      }
      const bool chunks = workload.beyond == BeyondLongest::chunk;
      do {
        drawn.lengths.push_back(std::min(length, workload.longest));
        drawn.chunks += chunks ? 1 : 0;
        length -= drawn.lengths.back();
      } while (chunks && length > 0 && std::ssize(drawn.lengths) < workload.batch);
      drawn.left_out += length;
    }
    std::ranges::sort(drawn.lengths, std::greater<>());
    return drawn;
  }

  void add(Result& result, const policies::SequenceView& view, const policies::BatchPlan& plan) const {
    ++result.batches;
    result.seconds += plan_s(view, plan) + result.prices.update_s;
    result.micro_batches += static_cast<double>(plan.size());
    policies::GroupLoad all;
    for (const std::int64_t length : view.lengths) all.add(length);
    result.tokens += all.tokens;
    result.longest = std::max(result.longest, static_cast<double>(view.lengths.front()));
    result.bound_s +=
        (view.costs->square_s * all.squares + view.costs->linear_s * all.tokens) / static_cast<double>(view.devices) +
        view.costs->fixed_s * static_cast<double>(least_micro_batches(view)) + result.prices.update_s;
    for (const policies::MicroBatch& micro_batch : plan) {
      result.groups += static_cast<double>(micro_batch.size());
      for (const policies::SequenceGroup& group : micro_batch) {
        const auto k = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(group.degree)) - 1);
        for (const std::int32_t member : group.members)
          result.token_share[k] += static_cast<double>(view.lengths[static_cast<std::size_t>(member)]);
      }
    }
  }

  static void write(BufferedFile& file, std::int64_t batch, const policies::SequenceView& view,
                    const policies::BatchPlan& plan) {
    for (std::size_t m = 0; m < plan.size(); ++m)
      for (const policies::SequenceGroup& group : plan[m]) {
        std::int64_t tokens = 0;
        for (const std::int32_t member : group.members) tokens += view.lengths[static_cast<std::size_t>(member)];
        append(file.buffer(), "{},{},{},{},{},{:.9g}\n", batch, m, group.degree, group.members.size(), tokens,
               group_s(view, group));
        file.line_done();
      }
  }

  UnevenConfig config_;
  const Sections& params_;
};

}  // namespace
}  // namespace uneven

System uneven_batches_system() {
  return {
      .name = "uneven_batches",
      .doc = "Training batches of sequences of unlike length, divided among groups of devices (FlexSP).",
      .fields = describe_sections<uneven::Sections>,
      .figures = figures_or_reason(uneven::result_table().infos()),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        uneven::UnevenConfig config = uneven::read_uneven_config(root, *systems.registries(), faults);
        faults.throw_if_any();
        return std::make_unique<uneven::UnevenExperiment>(std::move(config));
      }};
}

}  // namespace orrery::experiments
