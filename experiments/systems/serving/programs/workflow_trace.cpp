// workflow_trace: recorded workflows, call by call. A workflow is a row of stages: consecutive calls of one step are a
// stage and are sent together; the next stage starts when all of them have ended (Hexgen-Flow, arXiv 2505.05286, and
// its public simulator).
//
// File: CSV with the columns query, call_index, step, input_tokens, output_tokens[, trace]; a workflow is what has the
// same trace and query, in the order of the file. Lines that start with '#' are comments. Without a file, workflows are
// drawn like those of the Text-to-SQL agent that Hexgen-Flow was judged on.
//
// With `slo` every stage has a deadline, as Hexgen-Flow gives it: of the time that the workflow has left, the share
// t(step) / (t(step) + t(steps still to come)), where "to come" is the standard workflow (steps in the order in which
// they first appear in the file, each as often as a workflow has it on average) and t(step) is the step's mean output
// tokens plus `prompt_weight` times its mean prompt tokens: only ratios count. A call is expected to give its step's
// mean output (where the run has no predictor).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "experiments/systems/serving/programs/program.hpp"
#include "experiments/systems/serving/programs/programs.hpp"
#include "sim/csv_table.hpp"

namespace orrery::experiments {
namespace {

struct WorkflowTraceParams {
  std::optional<std::string> path;
  std::int64_t drawn = 400;
  std::optional<double> slo_s;
  double prompt_weight = 0.0117;
  double shared_prompt = 0;

  static constexpr auto fields() {
    using sim::field;
    return sim::FieldTable{
        field("path", &WorkflowTraceParams::path, sim::Unit::path, sim::any_value(),
              "CSV: query, call_index, step, input_tokens, output_tokens[, trace]; null: workflows drawn like "
              "Text-to-SQL."),
        field("drawn", &WorkflowTraceParams::drawn, sim::Unit::count, sim::between(1, 1e6),
              "Number of workflows drawn if there is no file; they are the same in every run."),
        field("slo", &WorkflowTraceParams::slo_s, sim::Unit::seconds, sim::positive(),
              "Time within which a workflow should end; null: calls have no deadlines."),
        field(
            "prompt_weight", &WorkflowTraceParams::prompt_weight, sim::Unit::ratio, sim::between(0, 1),
            "Cost of a prompt token over that of an output token when deadlines are shared out (0.0117 solves the A100 "
            "rows of Hexgen-Flow's step latencies for Llama-3.1-70B)."),
        field("shared_prompt", &WorkflowTraceParams::shared_prompt, sim::Unit::ratio, sim::between(0, 1),
              "Share of a prompt that all calls of the same step have in common (instructions).")};
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
  explicit WorkflowTrace(const WorkflowTraceParams& params) : params_(params) {
    if (params.path) {
      read();
    } else {
      draw();
    }
    sum_up();
  }

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
    const std::filesystem::path path(*params_.path);
    const sim::CsvTable table = sim::CsvTable::read(path.parent_path(), path.filename().string());
    std::string last;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const std::string key =
          (table.has("trace") ? table.text(row, "trace") : std::string{}) + '\n' + table.text(row, "query");
      if (row == 0 || key != last) workflows_.emplace_back();
      last = key;
      add(table.text(row, "step"), table.count(row, "input_tokens"), table.count(row, "output_tokens"));
    }
    if (workflows_.empty()) sim::throw_fault({*params_.path, ""}, "expected at least one workflow, got none");
  }

  /// Workflows with the stages, counts and lengths of the 419 Text-to-SQL queries (8,010 calls) that Hexgen-Flow's
  /// repository has: shares of stages, means and deviations of each step.
  void draw() {
    sim::RandomStream random(1, "workflows");
    steps_ = {"retrieve",           "extract_keywords", "generate_candidate", "revise", "unit_tester",
              "generate_unit_test", "evaluate"};
    const auto calls = [&](const std::string& step, std::int64_t count, const TokenLaw& input, const TokenLaw& output) {
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t tokens = input.draw(random);
        add(step, tokens, output.draw(random));
      }
    };
    const TokenLaw looked_up{306, 0.014}, found{7.4, 1.1};
    for (std::int64_t i = 0; i < params_.drawn; ++i) {
      workflows_.emplace_back();
      const bool keywords = random.bernoulli(342.0 / 419);
      calls("retrieve", keywords ? 1 : 4, looked_up, found);
      if (keywords) {
        calls("extract_keywords", 1, {677, 0.038}, {49, 0.39});
        calls("retrieve", 3, looked_up, found);
      }
      calls("generate_candidate", 2, {10790, 0.2}, {672, 0.3});
      if (random.bernoulli(300.0 / 419)) {
        const std::int64_t revisions = TokenLaw{4.73, 0.59}.draw(random);
        calls("revise", revisions, {6988, 0.15}, {129, 1.29});
      }
      calls("unit_tester", 1, {275, 0.01}, {4.7, 0.2});
      if (!random.bernoulli(404.0 / 419)) continue;
      calls("generate_unit_test", 1, {1145, 0.21}, {99.6, 0.37});
      calls("unit_tester", 1, {275, 0.01}, {4.7, 0.2});
      const std::int64_t evaluations = TokenLaw{5.13, 0.27}.draw(random);
      calls("evaluate", evaluations, {1077, 0.29}, {30, 1.08});
      calls("unit_tester", 1, {275, 0.01}, {4.7, 0.2});
    }
  }

  /// Adds a call to the last workflow.
  void add(const std::string& name, std::int64_t input, std::int64_t output) {
    auto found = std::find(steps_.begin(), steps_.end(), name);
    if (found == steps_.end()) {
      steps_.push_back(name);
      found = steps_.end() - 1;
    }
    const WorkflowCall call{static_cast<std::int32_t>(found - steps_.begin()), input, output};
    Workflow& workflow = workflows_.back();
    if (workflow.empty() || workflow.back().front().step != call.step) workflow.emplace_back();
    workflow.back().push_back(call);
  }

  /// What a step costs on average, and what is still to come after it in the standard workflow.
  void sum_up() {
    std::vector<double> cost(steps_.size(), 0), count(steps_.size(), 0), stages(steps_.size(), 0),
        output(steps_.size(), 0);
    for (const Workflow& workflow : workflows_) {
      for (const Stage& stage : workflow) {
        const auto step = static_cast<std::size_t>(stage.front().step);
        stages[step] += 1;
        for (const WorkflowCall& call : stage) {
          cost[step] += static_cast<double>(call.output) + params_.prompt_weight * static_cast<double>(call.input);
          count[step] += 1;
          output[step] += static_cast<double>(call.output);
        }
      }
    }
    const auto queries = static_cast<double>(workflows_.size());
    cost_.resize(steps_.size());
    expected_.resize(steps_.size());
    remaining_.resize(steps_.size());
    double sum = 0;
    for (std::size_t step = steps_.size(); step-- > 0;) {
      cost_[step] = count[step] > 0 ? cost[step] / count[step] : 0;
      expected_[step] = count[step] > 0 ? std::max<std::int64_t>(1, std::llround(output[step] / count[step])) : 0;
      remaining_[step] = sum;
      sum += cost_[step] * stages[step] / queries;
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
    result.predicted_tokens = expected_[static_cast<std::size_t>(call.step)];
    result.deadline_ticks = deadline;
    return result;
  }

  WorkflowTraceParams params_;
  std::vector<Workflow> workflows_;
  std::vector<std::string> steps_;
  std::vector<double> cost_, remaining_;  // by step
  std::vector<std::int64_t> expected_;    // output of a step
};

}  // namespace

void add_workflow_trace(ProgramRegistry& registry) {
  registry.add<WorkflowTraceParams>(
      "workflow_trace",
      "Recorded workflows: stages of calls; a stage starts when all calls of the one before have ended.",
      [](const WorkflowTraceParams& params) { return std::make_unique<WorkflowTrace>(params); });
}

}  // namespace orrery::experiments
