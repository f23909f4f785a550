#include "sim/process.hpp"

#include "sim/resource.hpp"

namespace orrery::sim {

Processes::Processes(Engine& engine) : engine_(engine), frames_(FramePool::make()) {}

void Processes::end_all() {
  while (!active_.empty()) end(active_.front());
}

Processes::~Processes() {
  end_all();
  while (Resource* const resource = resources_.first()) {
    resource->unlink();
    resource->engine_gone();
  }
  frames_->orphan();
}

ProcessHandle Processes::start(std::string_view name, Task<void>&& process, bool daemon) {
  if (process.empty()) throw std::logic_error("an empty task was spawned as '" + std::string(name) + "'");
  if (process.promise()->processes != this)
    throw std::logic_error("'" + std::string(name) + "' was spawned on another engine than it was made for");
  if (free_.empty()) free_.push_back(records_.emplace_back());
  ProcessRecord& record = free_.front();
  record.processes = this;
  record.name.assign(name);
  record.daemon = daemon;
  record.start = engine_.schedule_at(engine_.now(), *this, payload(*process.promise()));
  record.root = process.release();
  record.root->record = &record;
  record.unlink();
  active_.push_back(record);
  ++live_;
  return ProcessHandle(record);
}

ProcessHandle Processes::spawn(std::string_view name, Process process) {
  return start(name, std::move(process), false);
}

ProcessHandle Processes::spawn_daemon(std::string_view name, Process process) {
  return start(name, std::move(process), true);
}

void Processes::add(Resource& resource) {
  resources_.push_back(resource);
}

void Processes::run_branch(PromiseBase& branch) {
  branch.self.resume();
  while (next_ != nullptr && stop_ == Stop::no) std::exchange(next_, nullptr)->self.resume();
}

// The running process returned, failed, or was cancelled while it ran; it is suspended now.
void Processes::stop_running() {
  ProcessRecord& record = *std::exchange(running_, nullptr);
  next_ = nullptr;
  stop_ = Stop::no;
  const std::exception_ptr exception = record.root->exception;
  end(record);
  if (exception) std::rethrow_exception(exception);
}

void Processes::end(ProcessRecord& record) {
  record.ending = true;
  engine_.cancel(record.start);
  record.root->destroy();
  record.root = nullptr;
  record.ending = false;
  ++record.generation;
  --live_;
  while (Waiter* const waiter = record.joiners.first()) {
    waiter->unlink();
    waiter->wake();
  }
  record.unlink();
  free_.push_front(record);
}

bool Processes::cancel(ProcessRecord& record) {
  if (record.ending) return false;
  if (&record == running_) {
    if (stop_ == Stop::no) stop_ = Stop::cancelled;
  } else {
    end(record);
  }
  return true;
}

void PromiseBase::destroy_children() {
  PromiseBase* innermost = this;
  while (innermost->blocked != nullptr && innermost->blocked->child() != nullptr)
    innermost = innermost->blocked->child();
  while (innermost != this) {
    PromiseBase* const above = innermost->parent();
    std::exchange(above->blocked, nullptr)->disown();
    innermost->self.destroy();
    innermost = above;
  }
}

void PromiseBase::describe(std::string& out) const {
  const PromiseBase* innermost = this;
  while (innermost->blocked != nullptr && innermost->blocked->child() != nullptr)
    innermost = innermost->blocked->child();
  if (innermost->blocked == nullptr)
    out += "something that the engine does not know";
  else
    innermost->blocked->describe(out);
}

void Processes::check_deadlock() const {
  constexpr int kShown = 20;
  std::int64_t waiting = 0;
  std::string lines;
  for (const ProcessRecord* record = active_.first(); record != nullptr; record = active_.after(*record)) {
    if (record->daemon || ++waiting > kShown) continue;
    lines += "\n  " + record->name + " waits for ";
    record->root->describe(lines);
  }
  if (waiting == 0) return;
  if (waiting > kShown) lines += "\n  and " + std::to_string(waiting - kShown) + " more";
  throw Deadlock("deadlock at " + humanise(engine_.scale().seconds(engine_.now()), Unit::seconds) + ": " +
                 std::to_string(waiting) + (waiting == 1 ? " process waits" : " processes wait") +
                 " and no event is left" + lines);
}

Engine& Join::engine() const {
  if (record_ == nullptr) throw std::logic_error("a handle was joined that names no process");
  return record_->processes->engine();
}

void Join::describe(std::string& out) const {
  out += "the end of process ";
  append_quoted(out, record_->name);
}

Resource::Resource(Engine& engine, std::string name) : engine_(&engine), name_(std::move(name)) {
  engine.processes().add(*this);
}

Engine& Resource::engine() const {
  if (engine_ == nullptr) throw std::logic_error("'" + name_ + "' was used after its engine had ended");
  return *engine_;
}

void append_quoted(std::string& out, std::string_view text) {
  constexpr std::size_t kLongest = 60;
  out += '\'';
  out += text.substr(0, kLongest);
  if (text.size() > kLongest) out += "…";
  out += '\'';
}

}  // namespace orrery::sim
