#include "sim/server.hpp"

#include <stdexcept>

namespace orrery::sim {

void detail::Job::leave() {
  if (place_ != Place::outside) server_->cancel(*this);
}

Server& detail::Job::server() const {
  if (server_ == nullptr) throw std::logic_error("a server was used after it had ended");
  return *server_;
}

Engine& detail::Job::engine() const {
  return server().engine();
}

void detail::Job::describe(std::string& out) const {
  if (server_ == nullptr)
    out += "a server that is gone";
  else
    server_->describe(out);
}

ServerUse::ServerUse(Server& server, Duration service, std::int64_t priority_)
    : Job(server, priority_, true), service_(service), left_(service) {
  if (service < Duration{0}) throw std::logic_error("'" + server.name() + "': a service has a negative duration");
}

void ServerUse::begin_wait(PromiseBase& promise) {
  suspend(promise);
  server().arrive(*this);
}

bool ServerAcquire::await_ready() {
  Server& station = server();
  if (station.full()) return false;
  ++station.arrived_;
  station.begin(*this);
  return true;
}

void ServerAcquire::begin_wait(PromiseBase& promise) {
  suspend(promise);
  server().arrive(*this);
}

Hold ServerAcquire::await_resume() {
  resumed();
  return gone() ? Hold() : server().take(*this);
}

Server::Server(Engine& engine, std::string name, std::int64_t capacity, Discipline discipline)
    : Resource(engine, std::move(name)), capacity_(capacity), discipline_(discipline) {
  if (capacity < 1) throw std::logic_error("'" + this->name() + "': a station needs at least one server");
  restart_statistics();
}

Server::~Server() {
  while (Job* const job = serving_.first()) let_go(*job);
  while (Job* const job = fifo_.first()) let_go(*job);
  for (Job* const job : queue_.elements()) let_go(*job);
}

// Its process waits for ever, unless a hold was granted: then it goes on with an empty one.
void Server::let_go(Job& job) {
  if (job.is_use_) engine().cancel(static_cast<ServerUse&>(job).event_);
  job.unlink();
  job.place_ = Job::Place::outside;
  job.server_ = nullptr;
}

Hold Server::take(Job& granted) {
  granted.place_ = Job::Place::outside;
  Hold hold;
  hold.start(*this, holds_, 1);
  return hold;
}

ServerAcquire Server::acquire(std::int64_t priority) {
  if (preempts()) throw std::logic_error("'" + name() + "' preempts: it serves use(), not acquire()");
  return {*this, priority};
}

std::optional<Hold> Server::try_acquire() {
  if (preempts()) throw std::logic_error("'" + name() + "' preempts: it serves use(), not try_acquire()");
  if (full()) return std::nullopt;
  ++arrived_;
  busy_.add(now(), 1);
  std::optional<Hold> hold(std::in_place);
  hold->start(*this, holds_, 1);
  return hold;
}

void Server::arrive(Job& job) {
  if (job.is_use_) engine().expect_time_for(static_cast<ServerUse&>(job).left_);
  job.sequence = next_sequence_++;
  ++arrived_;
  if (full() && !preempt_for(job))
    enqueue(job);
  else
    begin(job);
}

void Server::enqueue(Job& job) {
  waiting_.add(now(), 1);
  job.place_ = Job::Place::queue;
  if (discipline_ == Discipline::fifo)
    fifo_.push_back(job);
  else
    queue_.push(job);
}

void Server::dequeue(Job& job) {
  waiting_.add(now(), -1);
  job.place_ = Job::Place::outside;
  if (discipline_ == Discipline::fifo)
    job.unlink();
  else
    queue_.remove(job);
}

void Server::begin(Job& job) {
  if (job.is_use_) {
    ServerUse& use = static_cast<ServerUse&>(job);
    use.event_ = engine().schedule_in(use.left_, *this, reinterpret_cast<std::uint64_t>(&use));
    use.end_ = now() + use.left_;
    if (preempts()) preemptible_.push(job);
  }
  busy_.add(now(), 1);
  serving_.push_back(job);
  job.place_ = Job::Place::service;
}

void Server::end(Job& job) {
  busy_.add(now(), -1);
  job.unlink();
  job.place_ = Job::Place::outside;
  if (preempts()) preemptible_.remove(job);
}

// A server is free. Where it preempts, more than one job may begin: arrivals of this instant were put off while the
// least urgent job was about to end, and only one of them gets its server.
void Server::begin_next() {
  while (waiting_.value() > 0 && (preempts() || !full())) {
    Job& job = discipline_ == Discipline::fifo ? fifo_.front() : queue_.top();
    if (job.is_use_ && !engine().has_time_for(static_cast<ServerUse&>(job).left_)) {
      refuse(static_cast<ServerUse&>(job));
      continue;
    }
    if (full() && !preempt_for(job)) return;
    dequeue(job);
    begin(job);
    if (!job.is_use_) job.wake();
  }
}

// The time left has become too short for the service while it waited. It fails in its own process: whoever frees a
// server, a destructor maybe, has no part in it.
void Server::refuse(ServerUse& use) {
  dequeue(use);
  ++cancelled_;
  use.late_for_ = &engine();
  use.server_ = nullptr;
  use.wake();
}

// Takes a server from the least urgent job, if `job` is more urgent. One that ends at this very instant is let to end:
// its server is free before time goes on.
bool Server::preempt_for(const Job& job) {
  if (!preempts()) return false;
  ServerUse& victim = static_cast<ServerUse&>(preemptible_.top());
  if (job.priority >= victim.priority || victim.end_ == now()) return false;
  engine().cancel(victim.event_);
  victim.left_ = discipline_ == Discipline::preempt_resume ? victim.end_ - now() : victim.service_;
  ++preempted_;
  end(victim);
  enqueue(victim);
  return true;
}

void Server::on_event(std::uint64_t payload) {
  ServerUse& use = *reinterpret_cast<ServerUse*>(payload);
  PromiseBase& promise = *use.promise();
  ++served_;
  end(use);
  begin_next();
  promise.processes->resume(promise);
}

// The process of a job in the queue, in service, or about to take its hold was cancelled.
void Server::cancel(Job& job) {
  ++cancelled_;
  if (job.place_ == Job::Place::queue) return dequeue(job);
  if (job.is_use_) engine().cancel(static_cast<ServerUse&>(job).event_);
  end(job);
  begin_next();
}

void Server::give_back(std::int64_t units) {
  served_ += units;
  busy_.add(now(), -units);
  begin_next();
}

ServerStatistics Server::statistics() const {
  return {.arrived = arrived_,
          .served = served_,
          .cancelled = cancelled_,
          .preempted = preempted_,
          .busy_ticks = busy_.area(now()),
          .queued_ticks = waiting_.area(now()),
          .utilisation = busy_.mean(now()) / static_cast<double>(capacity_),
          .mean_queue = waiting_.mean(now())};
}

void Server::restart_statistics() {
  busy_.restart(now());
  waiting_.restart(now());
  arrived_ = busy_.value() + waiting_.value();
  served_ = cancelled_ = preempted_ = 0;
}

void Server::describe(std::string& out) const {
  out += "server ";
  append_quoted(out, name());
  out += " (" + std::to_string(capacity_ - busy_.value()) + " of " + std::to_string(capacity_) + " free";
  describe_holders(out, holds_, false);
  out += ")";
}

}  // namespace orrery::sim
