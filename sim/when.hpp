// Waiting for several things at once: when_all and when_any.
//
// Each takes tasks and plain awaitables (delays, uses, receives, joins, other groups), given one by one or as a vector.
// They start in the order given, as branches of the process that waits. The first exception ends a group: the other
// branches are cancelled and it comes out of the co_await. `when_any(channel.receive(), engine.delay(d))` is a timeout.
#pragma once

#include <array>
#include <tuple>
#include <variant>
#include <vector>

#include "sim/process.hpp"

namespace orrery::sim {

/// What when_any(a, b, …) gives: which ended first, and its value (std::monostate for none).
template <class... T>
struct AnyOf {
  std::size_t index = 0;
  std::variant<T...> value;
};
/// The same for a vector.
template <class T>
struct AnyOfMany {
  std::size_t index = 0;
  T value;
};

namespace detail {

template <class T>
using ValueOf = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class A>
struct ResultOf {
  using type = decltype(std::declval<A&>().await_resume());
};
template <class T>
struct ResultOf<Task<T>> {
  using type = T;
};
template <class A>
using TaskOf = Task<typename ResultOf<A>::type>;

/// The awaitable moves on into a local: a parameter would outlive the promise that it points at.
template <class A>
TaskOf<A> await_inside(Engine&, A awaitable) {
  A local(std::move(awaitable));
  co_return co_await std::move(local);
}

template <class T>
Task<T> to_task(Task<T>&& task) {
  if (task.empty()) throw std::logic_error("a group was given a task that is empty, or was awaited before");
  return std::move(task);
}
template <class A>
TaskOf<A> to_task(A&& awaitable) {
  Engine& engine = awaitable.engine();
  return await_inside<A>(engine, std::move(awaitable));
}

template <class T>
ValueOf<T> take_value(Task<T>& task) {
  if constexpr (std::is_void_v<T>) {
    task.promise()->take();
    return {};
  } else {
    return task.promise()->take();
  }
}

/// The branches of a group, one by one or in a vector.
template <class... T>
class TupleBranches {
 public:
  explicit TupleBranches(Task<T>&&... tasks) : tasks_(std::move(tasks)...) {}
  std::size_t size() const { return sizeof...(T); }
  PromiseBase* promise(std::size_t i) const {
    return std::apply([i](const auto&... task) { return std::array<PromiseBase*, sizeof...(T)>{task.promise()...}[i]; },
                      tasks_);
  }
  void clear() {
    std::apply([](auto&... task) { ((task = {}), ...); }, tasks_);
  }
  std::tuple<ValueOf<T>...> take_all() {
    return std::apply([](auto&... task) { return std::tuple<ValueOf<T>...>{take_value(task)...}; }, tasks_);
  }
  AnyOf<ValueOf<T>...> take_one(std::size_t index) { return take_one(index, std::index_sequence_for<T...>{}); }

 private:
  template <std::size_t... I>
  AnyOf<ValueOf<T>...> take_one(std::size_t index, std::index_sequence<I...>) {
    std::optional<std::variant<ValueOf<T>...>> value;
    ((I == index ? void(value.emplace(std::in_place_index<I>, take_value(std::get<I>(tasks_)))) : void()), ...);
    return {index, std::move(*value)};
  }
  std::tuple<Task<T>...> tasks_;
};

template <class T>
class VectorBranches {
 public:
  explicit VectorBranches(std::vector<Task<T>>&& tasks) : tasks_(std::move(tasks)) {}
  std::size_t size() const { return tasks_.size(); }
  PromiseBase* promise(std::size_t i) const { return tasks_[i].promise(); }
  void clear() {
    for (Task<T>& task : tasks_) task = {};
  }
  auto take_all() {
    if constexpr (!std::is_void_v<T>) {
      std::vector<T> values;
      values.reserve(tasks_.size());
      for (Task<T>& task : tasks_) values.push_back(take_value(task));
      return values;
    }
  }
  AnyOfMany<ValueOf<T>> take_one(std::size_t index) { return {index, take_value(tasks_[index])}; }

 private:
  std::vector<Task<T>> tasks_;
};

enum class Until : std::uint8_t { all, any };

/// Counts the branches that end, and lets the parent go on.
class Group : public Blocker, private Completion {
 protected:
  Group() = default;
  ~Group() = default;
  template <class Branches>
  bool start(const Branches& branches, std::size_t needed, PromiseBase& parent);
  template <class Branches>
  void describe_branches(const Branches& branches, const char* word, std::string& out) const;
  void over() {
    if (parent_ != nullptr) std::exchange(parent_, nullptr)->blocked = nullptr;
  }
  PromiseBase* first() const { return first_; }
  PromiseBase* failed() const { return failed_; }

 private:
  void on_done(PromiseBase& ended) noexcept override;

  PromiseBase* parent_ = nullptr;
  PromiseBase* first_ = nullptr;   // the first branch that ended
  PromiseBase* failed_ = nullptr;  // the first that threw
  std::size_t needed_ = 0;
  bool starting_ = false;
};

// Runs each branch until it waits. They run nested in the parent, which is suspended; a branch that ends the group here
// must not resume it from inside.
template <class Branches>
bool Group::start(const Branches& branches, std::size_t needed, PromiseBase& parent) {
  parent_ = &parent;
  parent.blocked = this;
  needed_ = needed;
  starting_ = true;
  Processes& processes = *parent.processes;
  for (std::size_t i = 0; i < branches.size() && needed_ > 0 && !processes.cancel_requested(); ++i) {
    branches.promise(i)->set_completion(*this, parent);
    processes.run_branch(*branches.promise(i));
  }
  starting_ = false;
  return needed_ > 0 || processes.cancel_requested();
}

inline void Group::on_done(PromiseBase& ended) noexcept {
  if (first_ == nullptr) first_ = &ended;
  --needed_;
  if (ended.exception) {
    failed_ = &ended;
    needed_ = 0;
  }
  if (needed_ == 0 && !starting_) parent_->processes->transfer(*parent_);
}

template <class Branches>
void Group::describe_branches(const Branches& branches, const char* word, std::string& out) const {
  constexpr std::size_t kShown = 4;
  std::size_t waiting = 0;
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (branches.promise(i)->self.done() || ++waiting > kShown) continue;
    out += waiting == 1 ? std::string(word) + " of [" : "; ";
    branches.promise(i)->describe(out);
  }
  if (waiting > kShown) out += "; and " + std::to_string(waiting - kShown) + " more";
  out += "]";
}

template <class Branches, Until until>
class [[nodiscard]] GroupAwaiter final : public Group {
 public:
  explicit GroupAwaiter(Branches&& branches) : branches_(std::move(branches)) {
    if (until == Until::any && branches_.size() == 0) throw std::logic_error("when_any was given nothing to wait for");
  }
  GroupAwaiter(GroupAwaiter&& other) noexcept : branches_(std::move(other.branches_)) {}
  ~GroupAwaiter() { branches_.clear(); }
  /// Throws std::logic_error for an empty vector.
  Engine& engine() const {
    if (branches_.size() == 0) throw std::logic_error("an empty group stands in another group");
    return branches_.promise(0)->processes->engine();
  }
  bool await_ready() const { return branches_.size() == 0; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> handle) {
    return start(branches_, until == Until::all ? branches_.size() : 1, handle.promise());
  }
  auto await_resume() {
    over();
    if (failed() != nullptr) {
      const std::exception_ptr exception = failed()->exception;
      branches_.clear();
      std::rethrow_exception(exception);
    }
    if constexpr (until == Until::all) {
      return branches_.take_all();
    } else {
      std::size_t index = 0;
      while (branches_.promise(index) != first()) ++index;
      auto result = branches_.take_one(index);
      branches_.clear();  // cancels the others before the parent goes on
      return result;
    }
  }
  void describe(std::string& out) const override {
    describe_branches(branches_, until == Until::all ? "all" : "any", out);
  }

 private:
  Branches branches_;
};

template <class A>
std::vector<TaskOf<A>> to_tasks(std::vector<A>&& awaitables) {
  std::vector<TaskOf<A>> tasks;
  tasks.reserve(awaitables.size());
  for (A& awaitable : awaitables) tasks.push_back(to_task(std::move(awaitable)));
  return tasks;
}

}  // namespace detail

/// `auto [a, b] = co_await when_all(x, y)`: waits for all, gives a tuple of their values (std::monostate for none).
template <class... A>
requires(sizeof...(A) > 0 && (!std::is_lvalue_reference_v<A> && ...)) auto when_all(A&&... awaitables) {
  using Branches = detail::TupleBranches<typename detail::ResultOf<A>::type...>;
  return detail::GroupAwaiter<Branches, detail::Until::all>(Branches(detail::to_task(std::move(awaitables))...));
}

/// The same for a vector: gives a vector of the values, or nothing where they give none. An empty one is over at once.
template <class A>
auto when_all(std::vector<A> awaitables) {
  using Branches = detail::VectorBranches<typename detail::ResultOf<A>::type>;
  return detail::GroupAwaiter<Branches, detail::Until::all>(Branches(detail::to_tasks(std::move(awaitables))));
}

/// Waits for the first to end, cancels the others, and gives its index and value (AnyOf). Of those that are over at
/// once the first given wins, and the ones behind it never start.
template <class... A>
requires(sizeof...(A) > 0 && (!std::is_lvalue_reference_v<A> && ...)) auto when_any(A&&... awaitables) {
  using Branches = detail::TupleBranches<typename detail::ResultOf<A>::type...>;
  return detail::GroupAwaiter<Branches, detail::Until::any>(Branches(detail::to_task(std::move(awaitables))...));
}

/// The same for a vector (AnyOfMany); std::logic_error if it is empty.
template <class A>
auto when_any(std::vector<A> awaitables) {
  using Branches = detail::VectorBranches<typename detail::ResultOf<A>::type>;
  return detail::GroupAwaiter<Branches, detail::Until::any>(Branches(detail::to_tasks(std::move(awaitables))));
}

}  // namespace orrery::sim
