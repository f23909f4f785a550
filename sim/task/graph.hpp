// A graph of tasks over resources: what is to be done, by what, and what has to be finished first.
//
// A task runs for a duration, or until a flow of bytes has been carried, and holds units of its resources meanwhile: of
// one as a rule, of several (all or nothing), or of none (a milestone). A resource is so many equal units with an order
// in which waiting tasks are served. When a task starts is stated in sim/task/executor.hpp.
//
// Memory: 32 bytes a task (40 more while it is run) and 8 an edge. Demands are kept once for every set of demands that
// differs, names only where given. At most 2^31 - 1 tasks, 2^31 sets of demands and 2^32 - 1 edges.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/pages.hpp"
#include "sim/base/units.hpp"

namespace orrery::sim {

class TaskGraph;

/// Tasks are numbered from 0 in the order in which they are added.
struct TaskId {
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(TaskId, TaskId) = default;
};
struct ResourceId {
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(ResourceId, ResourceId) = default;
};

/// Which of the waiting tasks a resource serves first. Ties go to the task that became ready first, then by cause (see
/// sim/task/executor.hpp), then to the lower id.
enum class TaskOrder : std::uint8_t {
  fifo,      ///< the first to become ready
  priority,  ///< the highest priority
  lifo,      ///< the last to become ready; ties go to the later cause, then the higher id
  shortest,  ///< the least duration (ticks), for flows the fewest bytes
  longest,   ///< the most of these
  program,   ///< strictly in the order in which they were added: the head is waited for, whatever else is ready
  custom,    ///< the smallest TaskKey
};

/// A user's order: an integer for a task, smaller ones are served first.
class TaskKey {
 public:
  virtual ~TaskKey() = default;
  /// Called once when `task` becomes ready, or, if it demands `program` resources, when it is also the head of the
  /// first. Called again if a dependency was added while it waited. `ready` is when it became ready.
  virtual std::int64_t key(const TaskGraph& graph, TaskId task, Time ready) = 0;
};

struct ResourceSpec {
  std::string_view name{};    ///< for messages; may be empty
  std::int64_t capacity = 1;  ///< units, >= 1
  TaskOrder order = TaskOrder::fifo;
  TaskKey* key = nullptr;  ///< required by TaskOrder::custom and only there; must outlive every run of the graph
};

/// `units` (>= 1) of a resource; a ResourceId alone stands for one unit.
struct Demand {
  Demand() = default;
  Demand(ResourceId of, std::int64_t count = 1) : resource(of), units(count) {}
  ResourceId resource;
  std::int64_t units = 1;
  friend auto operator<=>(const Demand&, const Demand&) = default;
};

/// What a flow task hands to the Transport: bytes (>= 0), and two numbers that mean what the transport says.
struct FlowSpec {
  std::uint64_t path = 0;  ///< a path, or a pair of nodes
  std::int64_t bytes = 0;
  std::uint64_t label = 0;
};

/// A view of a few values, for the length of a call: written in braces, or an array, or a vector.
template <class T>
class Few : public std::span<const T> {
 public:
  Few() = default;
  Few(std::initializer_list<T> values) : std::span<const T>(values.begin(), values.size()) {}
  template <class Range>
  requires std::constructible_from < std::span<const T>,
  const Range& > Few(const Range& values) : std::span<const T>(values) {}
};

/// A task, as it is added: `graph.add({.duration = d, .on = {gpu}, .after = {a, b}})`.
struct TaskSpec {
  Duration duration{};             ///< >= 0; 0 for a flow
  std::optional<FlowSpec> flow{};  ///< instead of a duration
  Few<Demand> on{};                ///< no resource twice; none: a milestone, or a pure delay
  Few<TaskId> after{};             ///< tasks that must have finished
  std::int32_t priority = 0;       ///< higher is sooner, where the resource goes by it
  Time release{};                  ///< not ready before; a time of the engine's clock, >= 0
  std::string_view name{};         ///< for messages; may be empty, and then costs nothing
};

/// Tasks that wait for each other.
class TaskCycle : public std::logic_error {
 public:
  TaskCycle(const std::string& message, std::vector<TaskId> cycle)
      : std::logic_error(message), tasks(std::move(cycle)) {}
  /// Each waits for the one before it, and the first for the last.
  std::vector<TaskId> tasks;
};

class TaskGraph {
 public:
  static constexpr std::uint32_t kNoEdge = ~0U;

  /// Adds a resource. Throws std::invalid_argument if its capacity is below 1 or the key does not fit the order.
  ResourceId add_resource(const ResourceSpec& spec);
  /// Adds a task. Throws std::invalid_argument, and adds nothing, if an id is unknown, a duration, a release or bytes
  /// are negative, a flow has a duration as well, or a demand is below 1, above capacity or given twice.
  TaskId add(const TaskSpec& spec);
  /// `after` must not start before `before` has finished. Either may have been added first. Throws
  /// std::invalid_argument for an unknown id or a task that would wait for itself; longer cycles are found when the
  /// graph is run.
  void add_dependency(TaskId before, TaskId after);
  /// Room for so many, so that adding does not move what is there.
  void reserve(std::size_t tasks, std::size_t edges);

  std::size_t tasks() const { return nodes_.size(); }
  std::size_t edges() const { return edges_.size(); }
  std::size_t resources() const { return resources_.size(); }

  bool has_flows() const { return !flows_.empty(); }
  bool is_flow(TaskId task) const { return (nodes_[task.index].demands & kFlowBit) != 0; }
  /// Zero for a flow.
  Duration duration(TaskId task) const { return {is_flow(task) ? 0 : nodes_[task.index].work}; }
  const FlowSpec& flow(TaskId task) const { return flows_[static_cast<std::size_t>(nodes_[task.index].work)]; }
  /// Ticks, or bytes of a flow: what `shortest` and `longest` compare.
  std::int64_t work(TaskId task) const { return is_flow(task) ? flow(task).bytes : nodes_[task.index].work; }
  std::int32_t priority(TaskId task) const { return nodes_[task.index].priority; }
  Time release(TaskId task) const { return nodes_[task.index].release; }
  std::uint32_t predecessors(TaskId task) const { return nodes_[task.index].predecessors; }
  std::span<const Demand> demands(TaskId task) const { return demand_set(demand_set_of(task)); }
  /// Calls `visit(TaskId)` for every task that waits for `task`, in no useful order.
  template <class Visit>
  void for_each_successor(TaskId task, Visit visit) const {
    for (std::uint32_t e = nodes_[task.index].first_edge; e != kNoEdge; e = edges_[e].next) visit(TaskId{edges_[e].to});
  }

  std::int64_t capacity(ResourceId resource) const { return resources_[resource.index].capacity; }
  TaskOrder order(ResourceId resource) const { return resources_[resource.index].order; }
  TaskKey* key(ResourceId resource) const { return resources_[resource.index].key; }

  /// Tasks with the same demands, in the same order, share a set; set 0, counted too, is empty.
  std::size_t demand_sets() const { return sets_.size() - 1; }
  std::uint32_t demand_set_of(TaskId task) const { return nodes_[task.index].demands & ~kFlowBit; }
  std::span<const Demand> demand_set(std::uint32_t set) const {
    return {demands_.data() + sets_[set], sets_[set + 1] - sets_[set]};
  }
  /// Where the demands of a set stand in the row of all demands.
  std::uint32_t first_demand(std::uint32_t set) const { return sets_[set]; }

  /// The name given, or nothing.
  std::string_view name(TaskId task) const;
  std::string_view name(ResourceId resource) const { return resources_[resource.index].name; }
  /// For messages: `task 3 'gemm'`.
  std::string describe(TaskId task) const;
  std::string describe(ResourceId resource) const;

  /// True if some dependency or program order could close a cycle: if a task was made to wait for a later one.
  bool may_have_cycle() const { return backward_; }
  /// Throws TaskCycle, which names them, if tasks wait for each other by dependencies and program order. Linear.
  void check_cycles() const;

 private:
  static constexpr std::uint32_t kFlowBit = 1U << 31;
  static constexpr std::uint32_t kNoSet = ~0U;
  struct Node {
    std::int64_t work = 0;  // ticks, or the index of a flow
    Time release;
    std::int32_t priority = 0;
    std::uint32_t demands = 0;  // set, and kFlowBit
    std::uint32_t first_edge = kNoEdge;
    std::uint32_t predecessors = 0;
  };
  static_assert(sizeof(Node) == 32);
  struct Edge {
    std::uint32_t to, next;
  };
  struct Resource {
    std::string name;
    std::int64_t capacity;
    TaskOrder order;
    TaskKey* key;
    std::uint32_t single = kNoSet;  // the set that demands one unit of this alone
  };
  struct Lexicographic {  // so that a set is looked up without making a vector of it
    using is_transparent = void;
    bool operator()(std::span<const Demand> a, std::span<const Demand> b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
    }
  };
  struct Name {
    std::uint32_t task;
    std::uint32_t end;  // in names_; it begins where the one before ends
  };

  void check(const TaskSpec& spec) const;
  void check_demands(const TaskSpec& spec) const;
  std::uint32_t intern(std::span<const Demand> demands);
  std::uint32_t new_set(std::span<const Demand> demands);
  void link(std::uint32_t before, std::uint32_t after);
  std::vector<std::vector<std::uint32_t>> programs() const;
  [[noreturn]] void throw_cycle(const std::vector<std::uint32_t>& waits,
                                const std::vector<std::vector<std::uint32_t>>& programs) const;

  std::vector<Node, PageAllocator<Node>> nodes_;
  std::vector<Edge, PageAllocator<Edge>> edges_;
  std::vector<Resource> resources_;
  std::vector<FlowSpec> flows_;
  std::vector<Demand> demands_;
  std::vector<std::uint32_t> sets_{0, 0};  // set s: demands_[sets_[s]] … demands_[sets_[s + 1]]
  std::map<std::vector<Demand>, std::uint32_t, Lexicographic> set_of_;
  std::vector<Name> named_;
  std::string names_;
  bool backward_ = false;
};

}  // namespace orrery::sim
