// Batching policies: Python classes asked by replicas, and policies of C++ that Python ones build on.
#include <fmt/format.h>

#include <limits>
#include <stdexcept>

#include "tools/python/bindings/batching_view.hpp"

namespace orrery::python {
namespace {

using policies::BatchDecision;
using policies::BatchView;

/// Opens view and decision for one call.
class Opened {
 public:
  Opened(ViewRef& view, DecisionRef& out) : view_(view), out_(out) {}
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    out_.close();
    view_.close();
  }

 private:
  ViewRef& view_;
  DecisionRef& out_;
};

/// Asks a Python object. The lock is taken for each decision.
class PythonBatching final : public policies::Batching {
 public:
  PythonBatching(std::shared_ptr<PolicySource> source, std::int64_t replica) : source_(std::move(source)) {
    const py::gil_scoped_acquire lock;
    try {
      const py::object policy = source_->make();
      decide_ = hold(policy.attr("decide"));
      view_ = std::make_shared<ViewRef>(replica);
      out_ = std::make_shared<DecisionRef>(view_);
      view_object_ = hold(py::cast(view_));
      out_object_ = hold(py::cast(out_));
    } catch (py::error_already_set& error) {
      source_->rethrow(error);
    }
  }

  void decide(const BatchView& view, BatchDecision& out) override {
    const py::gil_scoped_acquire lock;
    view_->open(view);
    out_->open(out);
    const Opened opened(*view_, *out_);
    source_->asked(view_->seconds(view.now));
    try {
      (*decide_)(*view_object_, *out_object_);
    } catch (py::error_already_set& error) {
      source_->rethrow(error);
    }
  }

 private:
  std::shared_ptr<PolicySource> source_;
  std::shared_ptr<ViewRef> view_;
  std::shared_ptr<DecisionRef> out_;
  Held decide_, view_object_, out_object_;
};

/// A policy of C++ under a Python one.
class NativeBatching {
 public:
  NativeBatching(const policies::BatchingRegistry& registry, const std::string& name, const std::string& params) {
    sim::Faults faults;
    const sim::Node node = sim::parse_json(params, "parameters");
    const auto choice = registry.prepare(name, &node, {name, ""}, faults);
    faults.throw_if_any();
    policy_ = choice.make();
  }
  void decide(const ViewRef& view, const DecisionRef& out) {
    out.get().clear();
    policy_->decide(view.get(), out.get());
  }

 private:
  std::unique_ptr<policies::Batching> policy_;
};

/// Of a sequence that is there, of the replica that asks.
policies::SeqId checked(const DecisionRef& out, const SeqRef& seq) {
  if (seq.owner() != out.view()) throw std::invalid_argument("this sequence belongs to another replica");
  return seq.id();
}

policies::Preempt preempt_of(const std::string& how) {
  using policies::Preempt;
  if (how == "recompute") return Preempt::recompute;
  if (how == "swap") return Preempt::swap;
  if (how == "pause") return Preempt::pause;
  throw std::invalid_argument(fmt::format("expected \"recompute\", \"swap\" or \"pause\", got \"{}\"", how));
}

void bind_decision(py::module_& module) {
  py::class_<DecisionRef, std::shared_ptr<DecisionRef>> out(module, "BatchDecision", "What a batching policy decides.");
  out.def(
      "admit",
      [](DecisionRef& d, const SeqRef& seq, std::optional<std::int64_t> reserve) {
        d.get().admit.push_back({checked(d, seq), reserve.value_or(seq.get().prefill_tokens)});
      },
      py::arg("sequence"), py::arg("reserve_tokens") = py::none(),
      "Admits a waiting sequence, with KV blocks for reserve_tokens tokens (default: those to prefill).");
  out.def(
      "chunk",
      [](DecisionRef& d, const SeqRef& seq, std::int64_t tokens, std::int32_t first, std::int32_t last) {
        d.get().items.push_back({.seq = checked(d, seq), .new_tokens = tokens, .layers = {first, last}});
      },
      py::arg("sequence"), py::arg("tokens"), py::arg("first_layer") = 0, py::arg("last_layer") = 0,
      "Prefills that many tokens of a prompt, through layers [first_layer, last_layer) (last_layer 0: all layers).");
  out.def(
      "preempt",
      [](DecisionRef& d, const SeqRef& seq, const std::string& how) {
        d.get().preempt.push_back({checked(d, seq), preempt_of(how)});
      },
      py::arg("sequence"), py::arg("how") = "recompute", "Preempts a running sequence; how: recompute, swap or pause.");
  out.def(
      "resume", [](DecisionRef& d, const SeqRef& seq) { d.get().resume.push_back(checked(d, seq)); },
      py::arg("sequence"), "Resumes a paused sequence.");
  out.def(
      "clear", [](DecisionRef& d) { d.get().clear(); }, "Empties the decision: decodes go on.");
  out.def_property(
      "decode_rest", [](const DecisionRef& d) { return d.get().decode_rest; },
      [](DecisionRef& d, bool value) { d.get().decode_rest = value; },
      "Whether decoding sequences without a chunk of their own take one step.");
  out.def_property(
      "mode", [](const DecisionRef& d) { return d.get().mode; },
      [](DecisionRef& d, std::optional<std::int32_t> value) { d.get().mode = value; },
      "Parallel layout that the replica switches to first, or None.");
  out.def_property(
      "stable_iterations", [](const DecisionRef& d) { return d.get().stable_iterations; },
      [](DecisionRef& d, std::int64_t value) { d.get().stable_iterations = std::max<std::int64_t>(1, value); },
      "Iterations for which the decision stays the same if nothing arrives or ends (STABLE: any number).");
  out.def_property_readonly("admitted", [](const DecisionRef& d) {
    std::vector<policies::SeqId> ids;
    for (const policies::Admission& one : d.get().admit) ids.push_back(one.seq);
    return d.refs(ids);
  });
  out.def_property_readonly("preempted", [](const DecisionRef& d) {
    std::vector<policies::SeqId> ids;
    for (const policies::Preemption& one : d.get().preempt) ids.push_back(one.seq);
    return d.refs(ids);
  });
  out.def_property_readonly("chunks", [](const DecisionRef& d) {
    std::vector<std::pair<SeqRef, std::int64_t>> all;
    for (const policies::Item& item : d.get().items) all.emplace_back(SeqRef(d.view(), item.seq), item.new_tokens);
    return all;
  });
}

/// A handle on the step that a decision holds.
struct StepRef {
  std::shared_ptr<DecisionRef> out;
  policies::BudgetStep& get() const {
    if (!out->step()) throw_closed("step");
    return *out->step();
  }
};

void bind_step(py::module_& module) {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  py::class_<StepRef> step(
      module, "BudgetStep",
      "One step of a scheduler with a token budget: call run_running() first, then admit() for "
      "each sequence to admit, settle() last. It finds blocks, chunks prompts and preempts if needed.");
  step.def(py::init([](const std::shared_ptr<ViewRef>& view, const std::shared_ptr<DecisionRef>& out,
                       std::int64_t tokens, std::int64_t sequences, std::int64_t chunk, bool chunked) {
             if (tokens < 1 || sequences < 1 || chunk < 1)
               throw std::invalid_argument("expected budgets of at least 1");
             out->step().emplace(
                 view->get(), out->get(),
                 policies::StepLimits{.tokens = tokens, .sequences = sequences, .chunk = chunk, .chunked = chunked});
             return StepRef{out};
           }),
           py::arg("view"), py::arg("out"), py::kw_only(), py::arg("tokens") = 2048, py::arg("sequences") = 256,
           py::arg("chunk") = kAny, py::arg("chunked") = true);
  step.def(
      "run_running", [](const StepRef& s) { s.get().run_running(); },
      "Gives running sequences their tokens of this step.");
  step.def(
      "preempt", [](const StepRef& s, const SeqRef& seq) { s.get().preempt(checked(*s.out, seq)); },
      py::arg("sequence"), "Preempts a running sequence; only before run_running().");
  step.def(
      "admit", [](const StepRef& s, const SeqRef& seq) { return s.get().admit(checked(*s.out, seq)); },
      py::arg("sequence"), "Admits a waiting sequence; False if budget, slots or blocks do not allow it.");
  step.def(
      "too_large", [](const StepRef& s, const SeqRef& seq) { return s.get().too_large(checked(*s.out, seq)); },
      py::arg("sequence"), "Whether the sequence exceeds the whole KV cache.");
  step.def(
      "settle", [](const StepRef& s) { s.get().settle(); }, "Sets how long the decision holds; call it last.");
  step.def_property_readonly("full", [](const StepRef& s) { return s.get().full(); });
  step.def_property_readonly("free_blocks", [](const StepRef& s) { return s.get().free_blocks(); });
  step.def_property_readonly("free_slots", [](const StepRef& s) { return s.get().free_slots(); });
}

}  // namespace

void install_batching(const std::shared_ptr<PolicySource>& source, experiments::ServingConfig& config) {
  std::int64_t replicas = 0;
  for (const experiments::ReplicaGroup& group : config.groups) replicas += group.params.count * group.lanes();
  const auto next = std::make_shared<std::int64_t>(0);  // further replications begin again
  for (experiments::ReplicaGroup& group : config.groups)
    group.batching.make = [source, next, replicas] {
      return std::make_unique<PythonBatching>(source, (*next)++ % replicas);
    };
}

void bind_batching(py::module_& module, const SharedKnown& known) {
  py::class_<PolicySource, std::shared_ptr<PolicySource>>(module, "PolicySource")
      .def(py::init<py::object, std::string, std::string>(), py::arg("make"), py::arg("name"), py::arg("source"));
  bind_decision(module);
  bind_step(module);
  py::class_<NativeBatching>(module, "NativeBatching")
      .def(py::init([known](const std::string& name, const std::string& params) {
             return std::make_unique<NativeBatching>(known->systems.registry<policies::BatchingRegistry>(), name,
                                                     params);
           }),
           py::arg("name"), py::arg("params"))
      .def("decide", &NativeBatching::decide, py::arg("view"), py::arg("out"));
  module.attr("STABLE") = policies::kStable;
}

}  // namespace orrery::python
