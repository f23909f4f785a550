// Routers that are Python objects.
#include <fmt/format.h>

#include "policies/routing/routing.hpp"
#include "tools/python/bindings/policy.hpp"

namespace orrery::python {
namespace {

using policies::ReplicaFacts;
using policies::RouteView;

/// A RouteView while a request is routed.
class RouteRef {
 public:
  const RouteView& get() const {
    if (view_ == nullptr) throw_closed("view");
    return *view_;
  }
  double seconds(sim::Time at) const {
    return static_cast<double>(at.ticks) * static_cast<double>(get().ps_per_tick) * 1e-12;
  }
  void open(const RouteView& view) { view_ = &view; }
  void close() { view_ = nullptr; }

 private:
  const RouteView* view_ = nullptr;
};

/// The replica at a place of the view.
struct ReplicaRef {
  std::shared_ptr<RouteRef> view;
  std::size_t place;
  const ReplicaFacts& get() const {
    const auto& all = view->get().replicas;
    if (place >= all.size()) throw py::index_error("no replica stands there");
    return all[place];
  }
};

struct ReplicaList {
  std::shared_ptr<RouteRef> view;
  std::size_t size() const { return view->get().replicas.size(); }
  ReplicaRef item(py::ssize_t i) const {
    const auto n = static_cast<py::ssize_t>(size());
    if (i < 0) i += n;
    if (i < 0 || i >= n) throw py::index_error("no replica stands there");
    return {view, static_cast<std::size_t>(i)};
  }
  py::iterator iterate() const {
    py::list all(size());
    for (std::size_t i = 0; i < size(); ++i) all[i] = ReplicaRef{view, i};
    return py::iter(all);
  }
};

struct RequestRef {
  std::shared_ptr<RouteRef> view;
  const policies::RouteRequest& get() const { return view->get().request; }
};

class PythonRouter final : public policies::Router {
 public:
  explicit PythonRouter(std::shared_ptr<PolicySource> source) : source_(std::move(source)) {
    const py::gil_scoped_acquire lock;
    try {
      const py::object policy = source_->make();
      route_ = hold(policy.attr("route"));
      left_ = hold(policy.attr("left"));
      reads_live_ = policy.attr("reads_live").cast<bool>();
      view_ = std::make_shared<RouteRef>();
      view_object_ = hold(py::cast(view_));
    } catch (py::error_already_set& error) {
      source_->rethrow(error);
    }
  }

  std::size_t route(const RouteView& view) override {
    const py::gil_scoped_acquire lock;
    struct Opened {
      RouteRef& ref;
      ~Opened() { ref.close(); }
    };
    view_->open(view);
    const Opened opened{*view_};
    source_->asked(view_->seconds(view.now));
    try {
      const py::object answer = (*route_)(*view_object_);
      if (py::isinstance<ReplicaRef>(answer)) return answer.cast<const ReplicaRef&>().place;
      if (PyIndex_Check(answer.ptr()) == 0)
        source_->refuse(fmt::format("expected the place of a replica in view.replicas, got {}",
                                    py::repr(answer).cast<std::string>()));
      const auto place = py::int_(answer).cast<std::int64_t>();
      if (place < 0 || place >= std::ssize(view.replicas))
        source_->refuse(
            fmt::format("expected the place of a replica, 0 to {}, got {}", view.replicas.size() - 1, place));
      return static_cast<std::size_t>(place);
    } catch (py::error_already_set& error) {
      if (error.matches(py::module_::import("orrery.errors").attr("PolicyError"))) throw;
      source_->rethrow(error);
    }
  }
  void left(std::int64_t request) override {
    const py::gil_scoped_acquire lock;
    try {
      (*left_)(request);
    } catch (py::error_already_set& error) {
      source_->rethrow(error);
    }
  }
  bool reads_live() const override { return reads_live_; }

 private:
  std::shared_ptr<PolicySource> source_;
  std::shared_ptr<RouteRef> view_;
  Held route_, left_, view_object_;
  bool reads_live_ = false;
};

void bind_replica(py::module_& module) {
  py::class_<ReplicaRef> replica(module, "ReplicaFacts", "What a router may know about a replica.");
  const auto field = [&replica](const char* name, auto member, const char* doc) {
    replica.def_property_readonly(
        name, [member](const ReplicaRef& r) { return r.get().*member; }, doc);
  };
  replica.def_readonly("place", &ReplicaRef::place, "Index in view.replicas.");
  field("replica", &ReplicaFacts::replica, "Number in the cluster; it does not change during the run.");
  field("requests", &ReplicaFacts::requests, "Requests at the replica or on their way to it.");
  field("queued_tokens", &ReplicaFacts::queued_tokens, "Tokens to prefill of requests whose prefill is not done.");
  field("tokens", &ReplicaFacts::tokens, "Prompt tokens of all its requests, and output tokens that these came with.");
  field("waiting", &ReplicaFacts::waiting, "Requests in its queue, if the router sets reads_live.");
  field("kv_blocks", &ReplicaFacts::kv_blocks, "KV blocks in use, if the router sets reads_live.");
  field("kv_total", &ReplicaFacts::kv_total, "KV blocks of the replica.");
  field("weight", &ReplicaFacts::weight, "Configured weight: its share of the load against others.");
  field("prefill_tokens_per_s", &ReplicaFacts::prefill_tokens_per_s,
        "Recently measured prefill rate in tokens/s; 0: not measured yet.");
  replica.def_property_readonly(
      "matched_tokens",
      [](const ReplicaRef& r) {
        const policies::Text* text = r.view->get().request.text;
        return text == nullptr ? std::int64_t{0} : r.get().match(*text);
      },
      "Leading tokens of the request's prompt that its prefix cache has.");
}

void bind_routing_view(py::module_& module) {
  py::class_<ReplicaList>(module, "ReplicaList", "Replicas that may take the request.")
      .def("__len__", &ReplicaList::size)
      .def("__getitem__", &ReplicaList::item)
      .def("__iter__", &ReplicaList::iterate);
  py::class_<RequestRef> request(module, "RouteRequest", "The request to route.");
  const auto field = [&request](const char* name, auto member, const char* doc) {
    request.def_property_readonly(
        name, [member](const RequestRef& r) { return r.get().*member; }, doc);
  };
  using policies::RouteRequest;
  field("id", &RouteRequest::id, "Number in the trace.");
  field("prefill_tokens", &RouteRequest::prefill_tokens,
        "Tokens to prefill: the prompt and, after a failure, the output so far.");
  field("ready_tokens", &RouteRequest::ready_tokens, "Tokens of prefill_tokens whose KV comes with the request.");
  field("predicted_tokens", &RouteRequest::predicted_tokens, "Predicted output tokens; 0: no prediction.");
  field("session", &RouteRequest::session, "Number of its conversation; -1: none.");
  field("tenant", &RouteRequest::tenant, "Tenant, for fairness between tenants.");
  field("priority", &RouteRequest::priority, "Higher goes first.");
  request.def_property_readonly("arrived_s", [](const RequestRef& r) { return r.view->seconds(r.get().arrived); });
  py::class_<RouteRef, std::shared_ptr<RouteRef>>(module, "RouteView", "What a router may know.")
      .def_property_readonly(
          "now_s", [](const RouteRef& v) { return v.seconds(v.get().now); }, "Simulated time in s.")
      .def_property_readonly("replicas", [](const std::shared_ptr<RouteRef>& v) { return v->get(), ReplicaList{v}; })
      .def_property_readonly("request", [](const std::shared_ptr<RouteRef>& v) { return v->get(), RequestRef{v}; });
}

}  // namespace

policies::RouterRegistry::Factory python_router(const std::shared_ptr<PolicySource>& source) {
  return [source](sim::RandomStream) { return std::make_unique<PythonRouter>(source); };
}

void bind_routing(py::module_& module) {
  bind_replica(module);
  bind_routing_view(module);
}

}  // namespace orrery::python
