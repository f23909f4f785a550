#include "experiments/systems/transactions/system.hpp"

#include <fmt/format.h>

#include <memory>
#include <numeric>

#include "experiments/base/config_experiment.hpp"
#include "experiments/base/config_parts.hpp"
#include "experiments/base/figure_table.hpp"
#include "experiments/base/text_file.hpp"
#include "experiments/systems/transactions/batch.hpp"
#include "experiments/systems/transactions/put_down.hpp"
#include "policies/transaction_order/transaction_order.hpp"

namespace orrery::experiments {
namespace transactions {
namespace {

using sim::Node;

constexpr double kMostWork = 2e10;  // looks at a lock while an order is chosen

struct WorkloadParams {
  std::optional<std::string> file;
  std::optional<BatchGenerator> generator;
  static constexpr auto fields() {
    using W = WorkloadParams;
    return sim::FieldTable{
        sim::field("file", &W::file, sim::Unit::path, sim::any_value(),
                   "JSON file of transactions: an object of \"name\": \"r-KEY w-KEY *\", one tick for each entry."),
        sim::field("generator", &W::generator, "Generator of transactions, in place of a file.")};
  }
};

struct PoliciesParams {
  policies::TransactionOrderRegistry::Choice order;
  static constexpr auto fields() {
    return sim::FieldTable{sim::choice("transaction_order", &PoliciesParams::order, "shortest_makespan",
                                       "Which of the remaining transactions goes next.")};
  }
};

struct Sections {
  WorkloadParams workload;
  PoliciesParams policies;
  PlainRunParams run;
  static constexpr auto fields() {
    using S = Sections;
    return sim::FieldTable{sim::section("workload", &S::workload, "The transactions."),
                           sim::section("policies", &S::policies, "Policy that orders the transactions."),
                           sim::section("run", &S::run, "Seed of the run.")};
  }
};

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

struct Result {
  std::size_t transactions = 0;
  std::int64_t locks = 0, ticks = 0, makespan = 0, bound = 0, sequential = 0;
};

const FigureTable<Result>& result_table() {
  using R = Result;
  static const FigureTable<R> table{
      {"status", "", "`ok`.", [](const R&) { return std::string("ok"); }},
      {"transactions", "", "Number of transactions in the batch.",
       [](const R& r) { return static_cast<std::int64_t>(r.transactions); }},
      {"locks", "", "Number of locks that the transactions take.", [](const R& r) { return r.locks; }},
      {"makespan", "", "Ticks until the last transaction ends.", [](const R& r) { return r.makespan; }},
      {"bound", "",
       "Lower bound of the makespan for any order, in ticks: the longest transaction, or the key that is written most.",
       [](const R& r) { return r.bound; }},
      {"sequential", "", "Makespan in the order of arrival.", [](const R& r) { return r.sequential; }},
      {"gain", "ratio", "Speed-up: makespan in the order of arrival over this makespan.",
       [](const R& r) { return ratio(r.sequential, r.makespan); }},
      {"running", "", "Mean number of transactions that run at the same time.",
       [](const R& r) { return ratio(r.ticks, r.makespan); }}};
  return table;
}

class TransactionsExperiment final : public ConfigExperiment {
 public:
  TransactionsExperiment(const Node& root, const sim::RegistrySet& registries, sim::Faults& faults)
      : params_(read_sections<Sections>(root, registries, faults)) {
    if (!faults.empty()) return;
    WorkloadParams& workload = params_.workload;
    const Node node = section(root, "workload");
    if (workload.file && workload.generator) {
      faults.add(node.origin(), "expected either a 'file' or a 'generator'");
      return;
    }
    seed_ = params_.run.seed;
    if (workload.file) {
      inputs_.emplace_back(*workload.file);
      batch_ = read_batch(*workload.file);
    } else {
      if (!workload.generator) workload.generator.emplace();
      check_generator(section(node, "generator"), *workload.generator, faults);
      if (!faults.empty()) return;
      batch_ = draw_batch(*workload.generator, sim::RandomStream(static_cast<std::uint64_t>(seed_), "transactions"));
    }
    const double work = static_cast<double>(batch_.transactions.size()) * static_cast<double>(locks());
    if (work > kMostWork)
      faults.add(node.origin(),
                 fmt::format("expected at most {:.3g} transactions times locks, got {:.3g}", kMostWork, work));
    resolved_ = resolved_config("transactions", params_);
  }

  std::vector<std::pair<std::string, std::string>> restated() const override {
    return {{"batch",
             fmt::format("{} transactions, {} locks on {} keys", batch_.transactions.size(), locks(), batch_.keys)},
            {"order", params_.policies.order.name}};
  }

  Outcome run(const RunSink& sink) const override {
    const std::size_t count = batch_.transactions.size();
    const sim::RandomStream random(static_cast<std::uint64_t>(seed_), "transaction order");
    const auto policy = params_.policies.order.make(random);
    std::unique_ptr<BufferedFile> file;
    if (sink.folder) {
      file = std::make_unique<BufferedFile>(*sink.folder / "schedule.csv");
      file->buffer() += "transaction,start,end,locks\n";
    }
    Result result{.transactions = count, .locks = locks()};
    std::int64_t done = 0;
    result.makespan = put_down(batch_, *policy, [&](std::uint32_t index, std::int64_t start) {
      const policies::Transaction& one = batch_.transactions[index];
      result.ticks += one.length;
      if (file) {
        append(file->buffer(), "{},{},{},{}\n", index, start, start + one.length - 1, one.locks.size());
        file->line_done();
      }
      if (sink.progress)
        sink.progress({.done = ++done, .total = std::ssize(batch_.transactions), .what = "transactions"});
    });
    if (file) file->close();
    std::vector<std::uint32_t> arrival(count);
    std::iota(arrival.begin(), arrival.end(), 0U);
    result.sequential = policies::makespan_of(batch_.transactions, arrival, batch_.keys);
    result.bound = policies::makespan_bound(batch_.transactions, batch_.keys);
    return {.summary = result_table().written(result), .events = count};
  }

 private:
  std::int64_t locks() const {
    std::int64_t all = 0;
    for (const policies::Transaction& one : batch_.transactions) all += std::ssize(one.locks);
    return all;
  }

  Sections params_;
  Batch batch_;
};

}  // namespace
}  // namespace transactions

System transactions_system() {
  return {
      .name = "transactions",
      .doc = "Runs a batch of transactions that contend for locks, in the order that a policy gives them.",
      .fields = describe_sections<transactions::Sections>,
      .figures = transactions::result_table().infos(),
      .read = [](const sim::Node& root, const Systems& systems, sim::Faults& faults) -> std::unique_ptr<Experiment> {
        auto experiment = std::make_unique<transactions::TransactionsExperiment>(root, *systems.registries(), faults);
        faults.throw_if_any();
        return experiment;
      }};
}

}  // namespace orrery::experiments
