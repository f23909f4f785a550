// workflow_trace: recorded workflows, call by call. A workflow is a row of stages: consecutive calls of one step are a
// stage and are sent together; the next stage starts when all of them have ended (Hexgen-Flow, arXiv 2505.05286, and
// its public simulator).
//
// File: CSV with the columns query, call_index, step, input_tokens, output_tokens[, trace]; a workflow is what has the
// same trace and query, in the order of the file. Lines that start with '#' are comments.
//
// With `slo` every stage has a deadline, as Hexgen-Flow gives it: of the time that the workflow has left, the share
// t(step) / (t(step) + t(steps still to come)), where "to come" is the standard workflow (steps in the order in which
// they first appear in the file, each as often as a workflow has it on average) and t(step) is the step's mean output
// tokens plus `prompt_weight` times its mean prompt tokens: only ratios count.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/serving/programs/program.hpp"
#include "experiments/serving/programs/programs.hpp"
#include "sim/csv_table.hpp"

namespace orrery::experiments {
namespace {

struct WorkflowTraceParams {
  std::string path;
  std::optional<double> slo_s;
  double prompt_weight = 0.0117;
  double shared_prompt = 0;

  static constexpr auto fields() {
    using sim::field;
    return std::tuple{
        sim::required(field("path", &WorkflowTraceParams::path, sim::Unit::path, sim::any_value(),
                            "CSV: query, call_index, step, input_tokens, output_tokens[, trace].")),
        field("slo", &WorkflowTraceParams::slo_s, sim::Unit::seconds, sim::positive(),
              "Time in which a workflow should end; null: calls have no deadlines."),
        field(
            "prompt_weight", &WorkflowTraceParams::prompt_weight, sim::Unit::ratio, sim::between(0, 1),
            "Cost of a prompt token over that of an output token when deadlines are shared out (0.0117 solves the A100 "
            "rows of Hexgen-Flow's step latencies for Llama-3.1-70B)."),
        field("shared_prompt", &WorkflowTraceParams::shared_prompt, sim::Unit::ratio, sim::between(0, 1),
              "Share of a prompt that all calls of its step have in common (instructions).")};
  }
};

struct WorkflowCall {
  std::int32_t step = 0;
  std::int64_t input = 1, output = 1;
};
using Stage = std::vector<WorkflowCall>;
using Workflow = std::vector<Stage>;

class WorkflowTrace final : public Program {
 public:
  explicit WorkflowTrace(const WorkflowTraceParams& params) : params_(params) { read(); }

  std::optional<std::int64_t> instances() const override { return std::ssize(workflows_); }

  sim::Task<bool> run(sim::Engine& engine, Client& client) override {
    const Workflow& workflow = workflows_[static_cast<std::size_t>(client.instance())];
    for (const Stage& stage : workflow) {
      const std::int64_t deadline = stage_deadline(engine, client, stage);
      std::vector<Future> futures;
      for (const WorkflowCall& call : stage) {
        Future future = co_await client.call(engine, make_call(client, call, deadline));
        futures.push_back(std::move(future));
      }
      for (Future& future : futures) {
        const bool completed = co_await client.answer(engine, future);
        if (!completed) co_return false;
      }
    }
    if (params_.slo_s) {
      const bool met = engine.now() - client.started() <= engine.scale().duration(*params_.slo_s);
      client.tell("slo_met", met ? 1 : 0);
    }
    co_return true;
  }

 private:
  void read() {
    const std::filesystem::path path(params_.path);
    const sim::CsvTable table = sim::CsvTable::read(path.parent_path(), path.filename().string());
    std::vector<std::string> steps;
    std::vector<double> cost_sum, count;
    std::string last;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const std::string key =
          (table.has("trace") ? table.text(row, "trace") : std::string{}) + '\n' + table.text(row, "query");
      if (row == 0 || key != last) workflows_.emplace_back();
      last = key;
      const std::string& name = table.text(row, "step");
      auto found = std::find(steps.begin(), steps.end(), name);
      if (found == steps.end()) {
        steps.push_back(name);
        cost_sum.push_back(0);
        count.push_back(0);
        found = steps.end() - 1;
      }
      const auto step = static_cast<std::size_t>(found - steps.begin());
      const WorkflowCall call{static_cast<std::int32_t>(step), table.count(row, "input_tokens"),
                              table.count(row, "output_tokens")};
      cost_sum[step] += static_cast<double>(call.output) + params_.prompt_weight * static_cast<double>(call.input);
      count[step] += 1;
      Workflow& workflow = workflows_.back();
      if (workflow.empty() || workflow.back().front().step != call.step) workflow.emplace_back();
      workflow.back().push_back(call);
    }
    if (workflows_.empty()) sim::throw_fault({params_.path, ""}, "expected at least one workflow, got none");
    std::vector<double> stages(steps.size(), 0);
    for (const Workflow& workflow : workflows_)
      for (const Stage& stage : workflow) stages[static_cast<std::size_t>(stage.front().step)] += 1;
    const auto queries = static_cast<double>(workflows_.size());
    remaining_.resize(steps.size());
    double sum = 0;
    for (std::size_t step = steps.size(); step-- > 0;) {
      cost_.insert(cost_.begin(), cost_sum[step] / count[step]);
      remaining_[step] = sum;
      sum += cost_.front() * std::max(1.0, stages[step] / queries) * std::min(1.0, stages[step] / queries);
    }
  }

  std::int64_t stage_deadline(sim::Engine& engine, Client& client, const Stage& stage) const {
    if (!params_.slo_s) return std::numeric_limits<std::int64_t>::max();
    const auto step = static_cast<std::size_t>(stage.front().step);
    const sim::Duration left = client.started() + engine.scale().duration(*params_.slo_s) - engine.now();
    const double share = cost_[step] / (cost_[step] + remaining_[step]);
    return engine.now().ticks + static_cast<std::int64_t>(static_cast<double>(left.ticks) * share);
  }

  Call make_call(Client& client, const WorkflowCall& call, std::int64_t deadline) const {
    const auto shared = static_cast<std::int64_t>(static_cast<double>(call.input) * params_.shared_prompt);
    Dialogue prompt;
    prompt.append(Client::shared(static_cast<std::uint64_t>(call.step), shared));
    prompt.append(client.fresh(call.input - shared));
    Call result = prompt.ask(call.output, call.step);
    result.deadline_ticks = deadline;
    return result;
  }

  WorkflowTraceParams params_;
  std::vector<Workflow> workflows_;
  std::vector<double> cost_, remaining_;  // by step
};

}  // namespace

void add_workflow_trace(ProgramRegistry& registry) {
  registry.add<WorkflowTraceParams>(
      "workflow_trace", "Recorded workflows: stages of calls, the next when all of one have ended.",
      [](const WorkflowTraceParams& params) { return std::make_unique<WorkflowTrace>(params); });
}

}  // namespace orrery::experiments
