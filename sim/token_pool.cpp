#include "sim/token_pool.hpp"

#include <stdexcept>

namespace orrery::sim {

TokenRequest::~TokenRequest() {
  if (pool_ != nullptr && (taken_ || linked())) pool_->cancel(*this);
}

TokenPool& TokenRequest::pool() const {
  if (pool_ == nullptr) throw std::logic_error("a token pool was used after it had ended");
  return *pool_;
}

Engine& TokenRequest::engine() const {
  return pool().engine();
}

bool TokenRequest::await_ready() {
  if (!pool().fits(count_)) return false;
  pool_->used_.add(pool_->now(), count_);
  taken_ = true;
  return true;
}

void TokenRequest::begin_wait(PromiseBase& promise) {
  suspend(promise);
  pool_->queue_.push_back(*this);
  pool_->waiting_.add(pool_->now(), 1);
}

Tokens TokenRequest::await_resume() {
  resumed();
  return pool_ == nullptr ? Tokens() : pool_->take(*this);
}

void TokenRequest::describe(std::string& out) const {
  if (pool_ == nullptr)
    out += "tokens of a pool that is gone";
  else
    pool_->describe(*this, out);
}

TokenPool::TokenPool(Engine& engine, std::string name, std::int64_t capacity, Admission admission)
    : Resource(engine, std::move(name)), capacity_(capacity), admission_(admission) {
  if (capacity < 0) throw std::logic_error("'" + this->name() + "': a pool has a negative capacity");
  restart_statistics();
}

void TokenPool::restart_statistics() {
  used_.restart(now());
  waiting_.restart(now());
}

TokenPool::~TokenPool() {
  for (List<TokenRequest>* const list : {&queue_, &granted_}) {
    while (TokenRequest* const request = list->first()) {
      request->unlink();
      request->pool_ = nullptr;
    }
  }
}

void TokenPool::check(std::int64_t count) const {
  if (count < 0) throw std::logic_error("'" + name() + "': a negative number of tokens was asked for");
  if (count > capacity_)
    throw std::logic_error("'" + name() + "': " + std::to_string(count) + " tokens were asked for, of " +
                           std::to_string(capacity_) + " there are");
}

TokenRequest TokenPool::acquire(std::int64_t count) {
  check(count);
  return {*this, count};
}

std::optional<Tokens> TokenPool::try_acquire(std::int64_t count) {
  check(count);
  if (!fits(count)) return std::nullopt;
  used_.add(now(), count);
  std::optional<Tokens> tokens(std::in_place);
  tokens->start(*this, holds_, count);
  return tokens;
}

Tokens TokenPool::take(TokenRequest& request) {
  request.taken_ = false;
  Tokens tokens;
  tokens.start(*this, holds_, request.count_);
  return tokens;
}

void TokenPool::give_back(std::int64_t count) {
  used_.add(now(), -count);
  grant_waiting();
}

void TokenPool::grant_waiting() {
  TokenRequest* next = queue_.first();
  while (next != nullptr) {
    TokenRequest& request = *next;
    if (request.count_ > free()) {
      if (admission_ == Admission::fifo) return;
      next = queue_.after(request);
      continue;
    }
    next = queue_.after(request);
    request.unlink();
    waiting_.add(now(), -1);
    used_.add(now(), request.count_);
    granted_.push_back(request);
    request.taken_ = true;
    request.wake();
  }
}

// The process was cancelled while it waited, or before it took what it was granted.
void TokenPool::cancel(TokenRequest& request) {
  request.unlink();
  if (request.taken_) return give_back(request.count_);
  waiting_.add(now(), -1);
  grant_waiting();  // those behind a large request may fit
}

void TokenPool::describe(const TokenRequest& request, std::string& out) const {
  out += std::to_string(request.count_) + (request.count_ == 1 ? " token of " : " tokens of ");
  append_quoted(out, name());
  out += " (" + std::to_string(free()) + " of " + std::to_string(capacity_) + " free";
  if (request.count_ <= free()) out += ", behind a larger request";
  describe_holders(out, holds_, true);
  out += ")";
}

}  // namespace orrery::sim
