#include "experiments/systems/uneven/system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/text_file.hpp"
#include "policies/sequence_groups/sequence_groups.hpp"
#include "traces/generator.hpp"

namespace orrery::experiments {
namespace uneven {
namespace {

using sim::Node;

struct MachineParams {
  std::int64_t devices = 64, memory_bytes = std::int64_t{30} << 30;
  std::vector<double> exchange;
  static constexpr auto fields() {
    using sim::Unit;
    using M = MachineParams;
    return sim::FieldTable{
        sim::field("devices", &M::devices, Unit::count, sim::between(1, 1 << 16), "A power of two."),
        sim::field("memory", &M::memory_bytes, Unit::bytes, sim::between(1, std::int64_t{1} << 50),
                   "Of a device, for model states and activations."),
        sim::required(sim::field("exchange", &M::exchange, Unit::bytes_per_s, sim::between(1, 1e18),
                                 "All-to-all bandwidth of a device in a group of 2, 4, 8 … devices, up to all."))};
  }
};

struct ModelParams {
  double parameters = 0, token_bytes = 0, square_s = 0, linear_s = 0, fixed_s = 0, state_bytes = 16;
  std::int64_t layers = 1, hidden = 1;
  static constexpr auto fields() {
    using sim::Unit;
    using M = ModelParams;
    constexpr sim::Range kTime = sim::between(0, 1e3);
    return sim::FieldTable{
        sim::required(sim::field("parameters", &M::parameters, Unit::none, sim::between(1, 1e15), "Of the model.")),
        sim::required(sim::field("layers", &M::layers, Unit::count, sim::between(1, 1 << 16), "Of the model.")),
        sim::required(sim::field("hidden", &M::hidden, Unit::count, sim::between(1, 1 << 24), "Width of the model.")),
        sim::required(
            sim::field("token_bytes", &M::token_bytes, Unit::bytes, sim::between(1, 1e12), "Activations of a token.")),
        sim::field("state_bytes", &M::state_bytes, Unit::bytes, sim::between(0, 1e3),
                   "Of a parameter: weights, gradients, optimizer; all devices share them out (ZeRO-3)."),
        sim::field("square", &M::square_s, Unit::seconds, kTime, "Of a token times a token: attention."),
        sim::required(sim::field("linear", &M::linear_s, Unit::seconds, kTime, "Of a token.")),
        sim::field("fixed", &M::fixed_s, Unit::seconds, kTime, "Of a micro-batch: gathers and sums of parameters.")};
  }
};

struct WorkloadParams {
  traces::LengthRegistry::Choice lengths;
  std::int64_t longest = 1 << 17, batch = 512, batches = 40;
  static constexpr auto fields() {
    using sim::Unit;
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::choice("lengths", &W::lengths, "log_normal", "Lengths of sequences: what it draws for prompts."),
        sim::field("longest", &W::longest, Unit::tokens, sim::between(1, 1 << 30),
                   "Longest sequence; one that is longer is drawn again."),
        sim::field("batch", &W::batch, Unit::count, sim::between(1, 1 << 16), "Sequences of a batch."),
        sim::field("batches", &W::batches, Unit::count, sim::between(1, 1 << 16), "How many are drawn.")};
  }
};

struct PoliciesParams {
  policies::SequenceGroupingRegistry::Choice groups;
  static constexpr auto fields() {
    return sim::FieldTable{
        sim::choice("groups", &PoliciesParams::groups, "flexsp", "How the sequences of a batch share devices.")};
  }
};

struct Sections {
  MachineParams machine;
  ModelParams model;
  WorkloadParams workload;
  PoliciesParams policies;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::required(sim::section("machine", &S::machine, "Devices, memory, all-to-all.")),
                           sim::required(sim::section("model", &S::model, "What tokens cost.")),
                           sim::section("workload", &S::workload, "Lengths and batches."),
                           sim::section("policies", &S::policies, "How sequences share devices."),
                           sim::section("run", &S::run, "Seed of the run.")};
  }
};

struct Result {
  const Sections& params;
  std::int64_t batches = 0;
  double seconds = 0, bound_s = 0, tokens = 0, micro_batches = 0, groups = 0, longest = 0;
  std::vector<double> token_share;  ///< by the logarithm of the degree
  double of_batches(double sum) const { return sum / static_cast<double>(batches); }
};

const FigureTable<Result>& result_table() {
  using R = Result;
  static const FigureTable<R> table{
      {"status", "", "`ok` or `infeasible`.", [](const R&) { return std::string("ok"); }},
      {"iteration_s", "s", "A step, mean over batches.", [](const R& r) { return r.of_batches(r.seconds); }},
      {"bound_s", "s",
       "The same if all devices were busy alike, without all-to-all, in as few micro-batches as memory allows.",
       [](const R& r) { return r.of_batches(r.bound_s); }},
      {"tokens_per_s", "1/s", "Of all batches.", [](const R& r) { return r.tokens / r.seconds; }},
      {"batch.{tokens,longest}", "tokens", "Of a batch; the longest sequence of all.",
       [](const R& r) { return r.of_batches(r.tokens); }, [](const R& r) { return r.longest; }},
      {"batch.{micro_batches,groups}", "", "Of a batch; of a micro-batch.",
       [](const R& r) { return r.of_batches(r.micro_batches); }, [](const R& r) { return r.groups / r.micro_batches; }},
      {"token_share.*", "ratio", "Of tokens, those in groups of so many devices.", [](const R& r) {
         Node all = Node::object();
         for (std::size_t k = 0; k < r.token_share.size(); ++k)
           all.set(fmt::format("{}", std::int64_t{1} << k), Node::real(r.token_share[k] / r.tokens));
         return all;
       }}};
  return table;
}

class UnevenExperiment final : public ConfigExperiment {
 public:
  UnevenExperiment(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults)
      : params_(read_sections<Sections>(root, registries, faults)) {
    if (!faults.empty()) return;
    const MachineParams& machine = params_.machine;
    const Node node = section(root, "machine");
    if (!std::has_single_bit(static_cast<std::uint64_t>(machine.devices)))
      faults.add(place_of(node, "devices"), fmt::format("expected a power of two, got {}", machine.devices));
    else if (machine.exchange.size() + 1 !=
             static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(machine.devices))))
      faults.add(place_of(node, "exchange"),
                 fmt::format("expected a bandwidth for each of 2, 4 … {} devices, {} in all, got {}", machine.devices,
                             std::bit_width(static_cast<std::uint64_t>(machine.devices)) - 1, machine.exchange.size()));
    if (!faults.empty()) return;
    seed_ = params_.run.seed;
    resolved_ = resolved_config("uneven_batches", params_);
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    return {{"machine", fmt::format("{} devices", params_.machine.devices)},
            {"batch", fmt::format("{} sequences, lengths {}, longest {}", params_.workload.batch,
                                  params_.workload.lengths.name, params_.workload.longest)},
            {"groups", params_.policies.groups.name}};
  }

  Outcome run(const RunSink& sink) const override {
    const policies::SequenceCosts costs = prices();
    if (!(costs.device_tokens >= 1)) return Outcome::infeasible("model states leave no memory for a token");
    std::unique_ptr<BufferedFile> file;
    if (sink.folder) {
      file = std::make_unique<BufferedFile>(*sink.folder / "groups.csv");
      file->buffer() += "batch,micro_batch,degree,sequences,tokens,time_s\n";
    }
    const auto policy = params_.policies.groups.make();
    Result result{.params = params_};
    result.token_share.assign(costs.exchange_s.size(), 0);
    for (std::int64_t b = 0; b < params_.workload.batches; ++b) {
      const std::vector<std::int64_t> lengths = draw(b);
      const policies::SequenceView view{lengths, params_.machine.devices, &costs};
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
  policies::SequenceCosts prices() const {
    const ModelParams& m = params_.model;
    const auto devices = static_cast<double>(params_.machine.devices);
    const double room = static_cast<double>(params_.machine.memory_bytes) - m.state_bytes * m.parameters / devices;
    policies::SequenceCosts costs{m.square_s, m.linear_s, m.fixed_s, {0}, room / m.token_bytes};
    // Four all-to-alls a layer, forward and backward, of two bytes an element (DeepSpeed-Ulysses).
    const double bytes = 4.0 * 2 * 2 * static_cast<double>(m.layers) * static_cast<double>(m.hidden);
    for (const double bandwidth : params_.machine.exchange) costs.exchange_s.push_back(bytes / bandwidth);
    return costs;
  }

  std::vector<std::int64_t> draw(std::int64_t batch) const {
    sim::RandomStream random =
        sim::RandomStream(static_cast<std::uint64_t>(seed_), "lengths").child(static_cast<std::uint64_t>(batch));
    const auto sampler = params_.workload.lengths.make();
    std::vector<std::int64_t> lengths;
    constexpr int kTries = 1'000'000;
    int tries = 0;
    while (std::ssize(lengths) < params_.workload.batch) {
      const std::int64_t length = sampler->sample(random).prompt_tokens;
      if (length <= params_.workload.longest) {
        lengths.push_back(length);
      } else if (++tries > kTries) {
        sim::throw_fault({"workload", "/workload/longest"},
                         "expected a length that is drawn now and then: a million draws were longer");
      }
    }
    std::ranges::sort(lengths, std::greater<>());
    return lengths;
  }

  void add(Result& result, const policies::SequenceView& view, const policies::BatchPlan& plan) const {
    ++result.batches;
    result.seconds += plan_s(view, plan);
    result.micro_batches += static_cast<double>(plan.size());
    policies::GroupLoad all;
    for (const std::int64_t length : view.lengths) all.add(length);
    result.tokens += all.tokens;
    result.longest = std::max(result.longest, static_cast<double>(view.lengths.front()));
    result.bound_s +=
        (view.costs->square_s * all.squares + view.costs->linear_s * all.tokens) / static_cast<double>(view.devices) +
        view.costs->fixed_s * static_cast<double>(least_micro_batches(view));
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

  Sections params_;
};

}  // namespace
}  // namespace uneven

System uneven_batches_system() {
  return {
      .name = "uneven_batches",
      .doc = "Training batches of unlike sequences, shared out over groups of devices (FlexSP).",
      .fields = describe_sections<uneven::Sections>,
      .figures = figures_or_reason(uneven::result_table().infos()),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        auto experiment = std::make_unique<uneven::UnevenExperiment>(root, *systems.registries(), faults);
        faults.throw_if_any();
        return experiment;
      }};
}

}  // namespace orrery::experiments
