// What Python policies see of a replica: light objects over the view of C++, which copy nothing and end with the call.
#pragma once

#include <optional>

#include "policies/batching/batching.hpp"
#include "policies/batching/budget_step.hpp"
#include "tools/python/bindings/policy.hpp"

namespace orrery::python {

/// A BatchView while a decision is made; closed outside of it. One object a policy, for all its decisions.
class ViewRef {
 public:
  explicit ViewRef(std::int64_t replica) : replica_(replica) {}
  const policies::BatchView& get() const {
    if (view_ == nullptr) throw_closed("view");
    return *view_;
  }
  std::int64_t replica() const { return replica_; }
  double seconds(sim::Time at) const {
    return static_cast<double>(at.ticks) * static_cast<double>(get().ps_per_tick) * 1e-12;
  }
  void open(const policies::BatchView& view) { view_ = &view; }
  void close() { view_ = nullptr; }

 private:
  const policies::BatchView* view_ = nullptr;
  std::int64_t replica_;
};

/// A sequence of a replica. It may be kept from decision to decision for as long as the sequence is there.
class SeqRef {
 public:
  SeqRef(std::shared_ptr<ViewRef> view, policies::SeqId id)
      : view_(std::move(view)), id_(id), order_(view_->get()[id].order) {}
  const policies::BatchView& view() const { return view_->get(); }
  const std::shared_ptr<ViewRef>& owner() const { return view_; }
  /// Throws for a sequence that has left.
  const policies::Sequence& get() const;
  policies::SeqId id() const { return get(), id_; }
  std::int64_t order() const { return order_; }

 private:
  std::shared_ptr<ViewRef> view_;
  policies::SeqId id_;
  std::int64_t order_;
};

/// A BatchDecision while it is made.
class DecisionRef {
 public:
  explicit DecisionRef(std::shared_ptr<ViewRef> view) : view_(std::move(view)) {}
  policies::BatchDecision& get() const {
    if (out_ == nullptr) throw_closed("decision");
    return *out_;
  }
  const std::shared_ptr<ViewRef>& view() const { return view_; }
  void open(policies::BatchDecision& out) { out_ = &out; }
  void close() {
    step_.reset();
    out_ = nullptr;
  }
  /// The step of a token budget that fills this decision.
  std::optional<policies::BudgetStep>& step() { return step_; }
  std::vector<SeqRef> refs(const std::vector<policies::SeqId>& ids) const;

 private:
  std::shared_ptr<ViewRef> view_;
  policies::BatchDecision* out_ = nullptr;
  std::optional<policies::BudgetStep> step_;
};

}  // namespace orrery::python
