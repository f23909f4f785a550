#include "tools/python/bindings/batching_view.hpp"

#include <stdexcept>

namespace orrery::python {

using policies::BatchView;
using policies::Phase;
using policies::SeqId;
using policies::Sequence;

const Sequence& SeqRef::get() const {
  const BatchView& view = view_->get();
  if (id_.index >= view.sequences.size() || view.sequences[id_.index].order != order_)
    throw std::invalid_argument("this sequence has left the replica");
  return view.sequences[id_.index];
}

namespace {

/// The sequences of a queue, as Python's sequences are: a length, items, a loop.
struct SeqList {
  std::shared_ptr<ViewRef> view;
  enum class Of : std::uint8_t { running, prefilling, waiting } of;

  std::size_t size() const {
    const BatchView& v = view->get();
    return of == Of::waiting ? v.waiting.size() : of == Of::running ? v.running.size() : v.prefilling.size();
  }
  SeqRef at(std::size_t i) const {
    const BatchView& v = view->get();
    return {view, of == Of::waiting ? v.waiting[i] : of == Of::running ? v.running[i] : v.prefilling[i]};
  }
  SeqRef item(py::ssize_t i) const {
    const auto n = static_cast<py::ssize_t>(size());
    if (i < 0) i += n;
    if (i < 0 || i >= n) throw py::index_error("no sequence stands there");
    return at(static_cast<std::size_t>(i));
  }
  py::iterator iterate() const {
    const std::size_t n = size();
    py::list all(n);
    for (std::size_t i = 0; i < n; ++i) all[i] = at(i);
    return py::iter(all);
  }
};

/// What a policy may know of the KV cache.
struct KvRef {
  std::shared_ptr<ViewRef> view;
  const policies::KvView& get() const { return view->get().kv; }
};

void bind_sequence(py::module_& module) {
  py::class_<SeqRef> seq(module, "Sequence", "A request on its way through a replica.");
  const auto field = [&seq](const char* name, auto member, const char* doc) {
    seq.def_property_readonly(
        name, [member](const SeqRef& s) { return s.get().*member; }, doc);
  };
  field("prompt_tokens", &Sequence::prompt_tokens, "Tokens of the prompt.");
  field("output_tokens", &Sequence::output_tokens, "True length of the output (an oracle).");
  field("predicted_tokens", &Sequence::predicted_tokens, "Output tokens as predicted at arrival; 0: no prediction.");
  field("prefill_tokens", &Sequence::prefill_tokens, "Tokens to prefill before the next one is emitted.");
  field("prefilled", &Sequence::prefilled, "Tokens of prefill_tokens that are done.");
  field("ready_tokens", &Sequence::ready_tokens, "Tokens of a waiting sequence whose KV comes with it.");
  field("cached_tokens", &Sequence::cached_tokens, "Prompt tokens found in the cache at the first admission.");
  field("turn", &Sequence::turn, "Number of its latest admission; running sequences are served in its order.");
  field("preemptions", &Sequence::preemptions, "How often it was preempted.");
  field("priority", &Sequence::priority, "Higher goes first, if the policy considers it.");
  field("tenant", &Sequence::tenant, "Tenant, for fairness between tenants.");
  field("branches", &Sequence::branches, "Outputs sampled in parallel.");
  seq.def_property_readonly("order", &SeqRef::order, "Number of its arrival at the replica, unique.");
  seq.def_property_readonly("arrived_s", [](const SeqRef& s) { return s.owner()->seconds(s.get().arrived); });
  seq.def_property_readonly(
      "phase", [](const SeqRef& s) { return sim::to_string(s.get().phase); },
      "\"waiting\", \"prefill\", \"decode\" or \"paused\".");
  seq.def_property_readonly(
      "prefill_left", [](const SeqRef& s) { return s.get().prefill_left(); }, "Tokens left to prefill.");
  seq.def_property_readonly(
      "kv_tokens", [](const SeqRef& s) { return s.view().kv_tokens(s.id()); },
      "Tokens whose keys and values are in the cache.");
  seq.def_property_readonly(
      "generated", [](const SeqRef& s) { return s.view().generated(s.id()); }, "Output tokens emitted.");
  seq.def_property_readonly(
      "to_compute", [](const SeqRef& s) { return tokens_to_compute(s.view(), s.id()); },
      "Tokens to compute if a waiting sequence is admitted now.");
  seq.def_property_readonly(
      "blocks", [](const SeqRef& s) { return blocks_freed(s.view(), s.id()); },
      "KV blocks that become available if it is preempted.");
  seq.def("__eq__", [](const SeqRef& a, const SeqRef& b) { return a.order() == b.order() && a.owner() == b.owner(); });
  seq.def("__hash__", [](const SeqRef& s) { return s.order(); });
  seq.def("__repr__", [](const SeqRef& s) {
    const Sequence& one = s.get();
    return py::str("<Sequence {}: {}, prompt {}, prefilled {}, generated {}>")
        .format(one.order, sim::to_string(one.phase), one.prompt_tokens, one.prefilled, s.view().generated(s.id()));
  });
}

void bind_cache(py::module_& module) {
  py::class_<KvRef> kv(module, "KvView", "The KV cache of a replica.");
  const auto number = [&kv](const char* name, auto read, const char* doc) {
    kv.def_property_readonly(
        name, [read](const KvRef& k) { return read(k.get()); }, doc);
  };
  using policies::KvView;
  number(
      "total_blocks", [](const KvView& v) { return v.total_blocks(); }, "Number of blocks.");
  number(
      "free_blocks", [](const KvView& v) { return v.free_blocks(); }, "Empty blocks.");
  number(
      "evictable_blocks", [](const KvView& v) { return v.evictable_blocks(); },
      "Blocks that hold only reusable prefixes.");
  number(
      "available_blocks", [](const KvView& v) { return v.available_blocks(); },
      "Blocks that can be allocated at once.");
  number(
      "block_bytes", [](const KvView& v) { return v.block_bytes(); }, "Bytes of a block on one device.");
  number(
      "keeps_prefixes", [](const KvView& v) { return v.keeps_prefixes(); },
      "Whether the cache keeps prefixes for reuse.");
  kv.def(
      "blocks_for", [](const KvRef& k, std::int64_t tokens) { return k.get().blocks_for(tokens); }, py::arg("tokens"),
      "Blocks that this many tokens of one sequence take.");
  kv.def(
      "held_blocks",
      [](const KvRef& k, const SeqRef& s) { return s.view().holds(s.id(), k.get().held_blocks(s.id())); },
      py::arg("sequence"), "Blocks that a sequence holds now.");
  kv.def(
      "match_prefix", [](const KvRef& k, const SeqRef& s) { return k.get().match_prefix(s.get()); },
      py::arg("sequence"), "Leading tokens of a waiting prompt that the cache has.");
  kv.def(
      "blocks_to_admit",
      [](const KvRef& k, const SeqRef& s, std::int64_t tokens) { return k.get().blocks_to_admit(s.get(), tokens); },
      py::arg("sequence"), py::arg("tokens"), "Blocks needed to admit a waiting sequence with room for tokens.");
}

void bind_view(py::module_& module) {
  py::class_<SeqList>(module, "SequenceList", "Sequences of a replica, in order.")
      .def("__len__", &SeqList::size)
      .def("__getitem__", &SeqList::item)
      .def("__iter__", &SeqList::iterate);
  py::class_<ViewRef, std::shared_ptr<ViewRef>> view(module, "BatchView", "What a batching policy may know.");
  using List = SeqList::Of;
  const auto list = [&view](const char* name, List of, const char* doc) {
    view.def_property_readonly(
        name,
        [of](const std::shared_ptr<ViewRef>& v) {
          return v->get(), SeqList{v, of};
        },
        doc);
  };
  list("running", List::running, "Running sequences by turn, in phase prefill, decode or paused.");
  list("prefilling", List::prefilling, "Sequences of `running` in prefill, by turn.");
  list("waiting", List::waiting,
       "Waiting sequences, front first: arrivals join the back, preempted sequences the front.");
  const auto field = [&view](const char* name, auto member, const char* doc) {
    view.def_property_readonly(
        name, [member](const ViewRef& v) { return v.get().*member; }, doc);
  };
  field("decoding", &BatchView::decoding, "Sequences of `running` in decode.");
  field("decode_tokens", &BatchView::decode_tokens, "New tokens if all decoding sequences take one step.");
  field("growth_blocks", &BatchView::growth_blocks, "New blocks that such a step would take.");
  field("decode_context", &BatchView::decode_context,
        "Tokens that such a step would attend to, the new ones included.");
  field("clock", &BatchView::clock, "Decode clock of the replica.");
  field("mode", &BatchView::mode, "Parallel layout of the replica.");
  view.def_property_readonly(
      "now_s", [](const ViewRef& v) { return v.seconds(v.get().now); }, "Simulated time in s.");
  view.def_property_readonly("replica", &ViewRef::replica, "Number of the replica (and lane) in the run.");
  view.def_property_readonly(
      "max_context", [](const ViewRef& v) { return v.get().limits.max_context; },
      "Most tokens that a request may have, prompt and output together.");
  view.def_property_readonly(
      "layers", [](const ViewRef& v) { return v.get().limits.layers; }, "Layers of the model.");
  view.def_property_readonly("kv", [](const std::shared_ptr<ViewRef>& v) { return v->get(), KvRef{v}; });
  view.def(
      "iteration_s",
      [](const ViewRef& v, std::int64_t decodes, std::int64_t decode_context, std::int64_t chunk_tokens,
         std::int64_t chunk_past) {
        if (v.get().pricer == nullptr) throw std::invalid_argument("nobody knows prices here");
        return static_cast<double>(v.get().pricer->time_ps({decodes, decode_context, chunk_tokens, chunk_past})) *
               1e-12;
      },
      py::kw_only(), py::arg("decodes") = 0, py::arg("decode_context") = 0, py::arg("chunk_tokens") = 0,
      py::arg("chunk_past") = 0, "Time in s of an iteration with these tokens; calls the device model.");
}

}  // namespace

void bind_batching_view(py::module_& module) {
  bind_sequence(module);
  bind_cache(module);
  bind_view(module);
}

std::vector<SeqRef> DecisionRef::refs(const std::vector<SeqId>& ids) const {
  std::vector<SeqRef> all;
  for (const SeqId id : ids) all.emplace_back(view_, id);
  return all;
}

}  // namespace orrery::python
