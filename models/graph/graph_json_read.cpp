// Reading graphs from JSON: every fault with its place, ops sorted on load.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "models/graph/file_order.hpp"
#include "models/graph/graph_json.hpp"
#include "models/graph/graph_json_values.hpp"

namespace orrery::models {
namespace {

using sim::Faults;
using sim::Node;

/// The names of all values of an enum.
template <class E>
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : sim::names_of<E>) names.emplace_back(name);
  return names;
}

/// An op as the file says it, before its inputs are known.
struct PendingOp {
  const Node* node = nullptr;
  OpNode op;
  std::vector<std::string> inputs;
  std::vector<Tensor> outputs;
  std::vector<bool> shaped, typed;  ///< what the file says of each output
};

class GraphReader : private JsonValues {
 public:
  GraphReader(Faults& faults, const Facts* outer, const std::set<Symbol>* outer_dims) : JsonValues(faults) {
    if (outer != nullptr) graph_.facts = *outer;
    if (outer_dims != nullptr) dims_ = *outer_dims;
    any_dims_ = outer_dims != nullptr;
  }

  OpGraph read(const Node& node) {
    const std::size_t before = faults_.size();
    if (!object(node, {"graph", "dims", "equal", "divisible", "tensors", "ops", "outputs", "version", "kind"}))
      return {};
    if (const Node* name = node.find("graph")) graph_.name = text(*name);
    read_dims(node);
    if (const Node* tensors = list(node, "tensors"))
      for (const Node& tensor : tensors->items()) read_input(tensor);
    if (const Node* ops = list(node, "ops"))
      for (const Node& op : ops->items()) read_op(op);
    name_outputs();
    resolve();
    if (faults_.size() == before) build();
    if (faults_.size() == before) {
      if (const Node* outputs = list(node, "outputs")) read_outputs(*outputs);
      check(node);
    }
    return std::move(graph_);
  }

 private:
  // ---- dimensions

  void read_dims(const Node& node) {
    if (const Node* dims = node.find("dims"); dims != nullptr && object_of(*dims, "dimensions")) {
      any_dims_ = true;
      dims_.clear();
      graph_.facts = {};
      for (const auto& [name, range] : dims->members()) read_dim(name, range);
    }
    if (const Node* equal = node.find("equal"); equal != nullptr && object_of(*equal, "dimensions"))
      for (const auto& [name, value] : equal->members()) {
        const SymExpr by = size(value);
        guarded(value, [&, &n = name] { graph_.facts.equal(Symbol(n), by); });
      }
    if (const Node* divisible = node.find("divisible"); divisible != nullptr && object_of(*divisible, "dimensions"))
      for (const auto& [name, value] : divisible->members()) {
        if (value.kind() != Node::Kind::integer || value.as_integer() < 1)
          faults_.add(value.origin(), "expected a divisor of at least 1, got " + value.shown());
        else
          guarded(value, [&, &n = name, &v = value] { graph_.facts.divisible(Symbol(n), v.as_integer()); });
      }
  }

  void read_dim(const std::string& name, const Node& range) {
    guarded(range, [&] { dims_.insert(Symbol(name)); });
    const auto end = [](const Node& item) { return item.is_null() || item.kind() == Node::Kind::integer; };
    if (!range.is_array() || range.items().size() != 2 || !end(range.items()[0]) || !end(range.items()[1])) {
      faults_.add(range.origin(), "expected [least, most] with null for no limit, got " + range.dump());
      return;
    }
    Bounds bounds;
    if (!range.items()[0].is_null()) bounds.lo = range.items()[0].as_integer();
    if (!range.items()[1].is_null()) bounds.hi = range.items()[1].as_integer();
    guarded(range, [&] {
      if (bounds != graph_.facts.range(Symbol(name))) graph_.facts.in_range(Symbol(name), bounds);
    });
  }

  // ---- tensors and ops

  /// Name, type, shape and the rest of a tensor; what `shaped` and `typed` say was there.
  Tensor read_tensor(const Node& node, bool& shaped, bool& typed) {
    static const auto types = all_names<ElementType>();
    static const auto layouts = all_names<Layout>();
    Tensor tensor;
    if (const Node* name = node.find("name")) tensor.name = text(*name);
    typed = node.find("type") != nullptr;
    choice(node, "type", tensor.type, sim::value_named<ElementType>, types);
    const Node* shape = node.find("shape");
    shaped = shape != nullptr;
    if (shaped) tensor.shape = sizes(*shape);
    choice(node, "layout", tensor.layout, sim::value_named<Layout>, layouts);
    if (const Node* saved = node.find("saved")) {
      if (saved->kind() != Node::Kind::boolean)
        faults_.add(saved->origin(), "expected true or false, got " + saved->shown());
      else
        tensor.saved = saved->as_boolean();
    }
    return tensor;
  }

  void read_input(const Node& node) {
    static const std::vector<std::string> roles{"input", "parameter", "constant", "state"};
    if (!object(node, {"name", "role", "type", "shape", "layout", "saved"})) return;
    const std::size_t before = faults_.size();
    bool shaped = false, typed = false;
    Tensor tensor = read_tensor(node, shaped, typed);
    tensor.role = TensorRole::input;
    choice(
        node, "role", tensor.role,
        [](const std::string& name) {
          const auto role = sim::value_named<TensorRole>(name);
          return role == TensorRole::activation ? std::nullopt : role;
        },
        roles);
    for (const char* key : {"name", "type", "shape"})
      if (node.find(key) == nullptr)
        faults_.add(node.origin_of(key), fmt::format("expected the {} of the tensor", key));
    if (faults_.size() != before) return;
    const std::string name = tensor.name;
    guarded(node, [&] { ids_.emplace(name, graph_.add_tensor(std::move(tensor))); });
  }

  void read_op(const Node& node) {
    pending_.emplace_back();
    PendingOp& op = pending_.back();
    op.node = &node;
    if (!object(node,
                {"name", "op", "in", "out", "attributes", "scope", "phase", "dialect", "target", "class", "regions"}))
      return;
    static const auto kinds = [] {
      std::vector<std::string> names;
      for (const OpInfo& kind : op_kinds()) names.emplace_back(kind.name);
      return names;
    }();
    static const auto phases = all_names<Phase>();
    static const auto classes = all_names<hw::OpClass>();
    if (node.find("op") == nullptr) faults_.add(node.origin_of("op"), "expected the kind of the op");
    choice(node, "op", op.op.kind, op_kind_of, kinds);
    choice(node, "phase", op.op.phase, sim::value_named<Phase>, phases);
    choice(node, "class", op.op.op_class, sim::value_named<hw::OpClass>, classes);
    for (const auto& [key, field] : {std::pair{"name", &op.op.name},
                                     {"scope", &op.op.scope},
                                     {"dialect", &op.op.dialect},
                                     {"target", &op.op.target}})
      if (const Node* value = node.find(key)) *field = text(*value);
    if (!op.op.name.empty() && !op_names_.insert(op.op.name).second)
      faults_.add(node.find("name")->origin(), fmt::format("two ops are named '{}'", op.op.name));
    if (const Node* inputs = list(node, "in"))
      for (const Node& input : inputs->items()) op.inputs.push_back(text(input));
    if (const Node* outputs = list(node, "out"))
      for (const Node& output : outputs->items()) read_output(output, op);
    if (const Node* attributes = node.find("attributes"); attributes != nullptr && object_of(*attributes, "attributes"))
      for (const auto& [key, value] : attributes->members()) op.op.set(key, attribute(value));
    if (const Node* regions = list(node, "regions"))
      for (const Node& region : regions->items()) {
        GraphReader inner(faults_, &graph_.facts, any_dims_ ? &dims_ : nullptr);
        op.op.regions.push_back(std::make_shared<const OpGraph>(inner.read(region)));
      }
  }

  void read_output(const Node& node, PendingOp& op) {
    bool shaped = false, typed = false;
    Tensor tensor;
    if (node.is_string()) {
      tensor.name = node.as_string();
    } else {
      if (!object(node, {"name", "type", "shape", "layout", "saved"})) return;
      tensor = read_tensor(node, shaped, typed);
    }
    op.outputs.push_back(std::move(tensor));
    op.shaped.push_back(shaped);
    op.typed.push_back(typed);
  }

  // ---- order

  void name_outputs() {
    for (std::size_t i = 0; i < pending_.size(); ++i)
      for (std::size_t place = 0; place < pending_[i].outputs.size(); ++place) {
        const std::string& name = pending_[i].outputs[place].name;
        if (name.empty()) continue;
        const bool taken = ids_.contains(name) || !makers_.emplace(name, i).second;
        if (taken)
          faults_.add(
              {pending_[i].node->origin().file, fmt::format("{}/out/{}", pending_[i].node->origin().pointer, place)},
              fmt::format("tensor '{}': the name is taken", name));
      }
  }

  std::vector<std::string> tensor_names() const {
    std::vector<std::string> known;
    for (const auto& [name, id] : ids_) known.push_back(name);
    for (const auto& [name, op] : makers_) known.push_back(name);
    std::sort(known.begin(), known.end());
    return known;
  }

  void resolve() {
    for (const PendingOp& op : pending_)
      for (std::size_t slot = 0; slot < op.inputs.size(); ++slot) {
        const std::string& name = op.inputs[slot];
        if (ids_.contains(name) || makers_.contains(name)) continue;
        faults_.add({op.node->origin().file, fmt::format("{}/in/{}", op.node->origin().pointer, slot)},
                    fmt::format("no tensor is named '{}'", name), near_hint(name, tensor_names()));
      }
  }

  void build() {
    std::vector<std::vector<std::size_t>> waits_for(pending_.size());
    for (std::size_t i = 0; i < pending_.size(); ++i)
      for (const std::string& input : pending_[i].inputs)
        if (const auto maker = makers_.find(input); maker != makers_.end()) waits_for[i].push_back(maker->second);
    const FileOrder sorted = file_order(waits_for);
    for (const std::size_t op : sorted.order) add(pending_[op]);
    if (sorted.cycle.empty()) return;
    std::string names;
    for (const std::size_t op : sorted.cycle) names += label(op) + " -> ";
    faults_.add(pending_[sorted.cycle.front()].node->origin(),
                fmt::format("the ops are in a cycle: {}{}", names, label(sorted.cycle.front())));
  }

  std::string label(std::size_t op) const {
    const OpNode& node = pending_[op].op;
    return node.name.empty() ? fmt::format("{} #{}", to_string(node.kind), op) : fmt::format("'{}'", node.name);
  }

  void add(PendingOp& pending) {
    for (const std::string& input : pending.inputs) {
      const auto found = ids_.find(input);
      if (found == ids_.end()) return;  // its maker is faulty, and reported
      pending.op.inputs.push_back(found->second);
    }
    try {
      complete(pending);
      std::vector<std::string> names;
      for (const Tensor& tensor : pending.outputs) names.push_back(tensor.name);
      const OpId id = graph_.add(std::move(pending.op), std::move(pending.outputs));
      for (std::size_t i = 0; i < names.size(); ++i)
        if (!names[i].empty()) ids_.emplace(names[i], graph_.op(id).outputs[i]);
      for (const std::string& fault : verify(graph_, id)) faults_.add(pending.node->origin(), fault);
    } catch (const GraphError& error) {
      faults_.add(pending.node->origin(), error.what());
    }
  }

  /// Fills in what the file leaves to the op's rule.
  void complete(PendingOp& pending) {
    const bool whole = std::all_of(pending.shaped.begin(), pending.shaped.end(), [](bool b) { return b; }) &&
                       std::all_of(pending.typed.begin(), pending.typed.end(), [](bool b) { return b; });
    if (whole) return;
    const std::vector<Tensor> inferred = infer_outputs(graph_, pending.op);
    if (inferred.size() < pending.outputs.size())
      throw GraphError(fmt::format("{} '{}': expected {} outputs, got {}", to_string(pending.op.kind), pending.op.name,
                                   inferred.size(), pending.outputs.size()));
    for (std::size_t i = 0; i < pending.outputs.size(); ++i) {
      if (!pending.shaped[i]) pending.outputs[i].shape = inferred[i].shape;
      if (!pending.typed[i]) pending.outputs[i].type = inferred[i].type;
    }
  }

  void read_outputs(const Node& node) {
    for (const Node& item : node.items()) {
      const std::string name = text(item);
      if (!item.is_string()) continue;
      if (const auto found = ids_.find(name); found != ids_.end())
        graph_.mark_output(found->second);
      else
        faults_.add(item.origin(), fmt::format("no tensor is named '{}'", name), near_hint(name, tensor_names()));
    }
  }

  /// What is left to check once all ops are there.
  void check(const Node& node) {
    if (graph_.op_count() == 0 && graph_.outputs().empty())
      faults_.add(node.origin_of("ops"), "expected a graph with at least one op or output");
  }

  OpGraph graph_;
  std::vector<PendingOp> pending_;
  std::unordered_map<std::string, TensorId> ids_;        ///< tensors that are in the graph
  std::unordered_map<std::string, std::size_t> makers_;  ///< outputs of pending ops
  std::set<std::string> op_names_;
};

}  // namespace

OpGraph graph_from_json(const Node& node) {
  Faults faults;
  GraphReader reader(faults, nullptr, nullptr);
  OpGraph graph = reader.read(node);
  faults.throw_if_any();
  return graph;
}

OpGraph read_graph_json(const std::filesystem::path& file) {
  return graph_from_json(sim::read_json(file));
}

}  // namespace orrery::models
