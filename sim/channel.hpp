// A queue of values between processes, bounded or not.
//
// Values come out in the order in which they were sent; senders and receivers are served in the order in which they
// came. A value for a receiver that waits is its own from then on; if it is cancelled before it goes on, the next
// receiver gets the value, or it goes back to its place. Capacity 0 is a rendezvous: a send ends when a receiver is
// given the value. It stays ended if that receiver is then cancelled: the value waits in the channel, whose size is 1.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "sim/process.hpp"
#include "sim/resource.hpp"

namespace orrery::sim {

inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

template <class T>
class Channel;

namespace detail {

template <class T>
struct Numbered {
  T value;
  std::uint64_t number;  // order of sending
};

/// A queue over a ring that grows and never shrinks: no allocation in a steady state.
template <class T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::int64_t size() const { return static_cast<std::int64_t>(size_); }
  void push_back(T&& value) {
    if (size_ == places_.size()) grow();
    at(size_++).emplace(std::move(value));
  }
  /// Puts back a value at its place among the numbers.
  void insert(T&& value) {
    push_back(std::move(value));
    for (std::size_t i = size_ - 1; i > 0 && at(i)->number < at(i - 1)->number; --i) std::swap(at(i), at(i - 1));
  }
  T pop_front() {
    std::optional<T>& place = at(0);
    T value = std::move(*place);
    place.reset();
    first_ = (first_ + 1) & (places_.size() - 1);
    --size_;
    return value;
  }

 private:
  std::optional<T>& at(std::size_t i) { return places_[(first_ + i) & (places_.size() - 1)]; }
  void grow() {
    std::vector<std::optional<T>> larger(places_.empty() ? 4 : 2 * places_.size());
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move(at(i));
    places_ = std::move(larger);
    first_ = 0;
  }

  std::vector<std::optional<T>> places_;  // a power of two
  std::size_t first_ = 0, size_ = 0;
};

/// What Channel::send() gives; await it at once.
template <class T>
class [[nodiscard]] ChannelSend final : public Waiter {
 public:
  ChannelSend(Channel<T>& channel, T&& value) : channel_(&channel), value_(std::move(value)) {}
  ChannelSend(ChannelSend&&) = default;
  Engine& engine() const { return channel_->engine(); }
  bool await_ready() { return channel_->try_send(value_); }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    suspend(handle.promise());
    channel_->senders_.push_back(*this);
  }
  void await_resume() { resumed(); }
  void describe(std::string& out) const override {
    if (channel_ == nullptr) {
      out += "room in a channel that is gone";
      return;
    }
    out += "room in channel ";
    channel_->describe(out);
  }

 private:
  friend Channel<T>;
  Channel<T>* channel_;  // null once the channel is gone
  T value_;
};

/// What Channel::receive() gives; await it at once.
template <class T>
class [[nodiscard]] ChannelReceive final : public Waiter {
 public:
  explicit ChannelReceive(Channel<T>& channel) : channel_(&channel) {}
  ChannelReceive(ChannelReceive&& other) noexcept : channel_(other.channel_) {}
  ~ChannelReceive() {
    unlink();
    if (channel_ != nullptr && item_) channel_->put_back(std::move(*item_));
  }
  Engine& engine() const { return channel_->engine(); }
  bool await_ready() {
    item_ = channel_->next_item();
    return item_.has_value() || channel_->closed();
  }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> handle) {
    suspend(handle.promise());
    channel_->receivers_.push_back(*this);
  }
  std::optional<T> await_resume() {
    resumed();
    std::optional<T> value;
    if (item_) value.emplace(std::move(item_->value));
    item_.reset();
    return value;
  }
  void describe(std::string& out) const override {
    if (channel_ == nullptr) {
      out += "a value from a channel that is gone";
      return;
    }
    out += "a value from channel ";
    channel_->describe(out);
  }

 private:
  friend Channel<T>;
  Channel<T>* channel_;  // null once the channel is gone
  std::optional<Numbered<T>> item_;
};

}  // namespace detail

/// T may be move-only.
template <class T>
class Channel final : public Resource {
 public:
  /// At most `capacity` values (>= 0; else std::logic_error) wait in it.
  Channel(Engine& engine, std::string name, std::int64_t capacity = kUnbounded)
      : Resource(engine, std::move(name)), capacity_(capacity) {
    if (capacity < 0) throw std::logic_error("'" + this->name() + "': a channel has a negative capacity");
  }
  ~Channel();

  /// `co_await channel.send(x)` waits for room. Throws std::logic_error where the channel is closed.
  detail::ChannelSend<T> send(T value) { return {*this, std::move(value)}; }
  /// `std::optional<T> x = co_await channel.receive()`: the next value, or nothing once the channel is closed and
  /// empty.
  detail::ChannelReceive<T> receive() { return detail::ChannelReceive<T>(*this); }
  /// Sends if there is room; else false, and `value` stays as it was. Throws as send() does.
  bool try_send(T& value);
  bool try_send(T&& value) { return try_send(value); }
  /// The next value, if there is one that nobody was promised.
  std::optional<T> try_receive();
  /// Nothing more can be sent. What was sent, by waiting senders too, is still received; then receivers get nothing.
  void close();

  bool closed() const { return closed_; }
  std::int64_t capacity() const { return capacity_; }
  /// Values in the channel; those of waiting senders do not count.
  std::int64_t size() const { return items_.size(); }

 private:
  friend detail::ChannelSend<T>;
  friend detail::ChannelReceive<T>;
  using Item = detail::Numbered<T>;

  void deliver(Item&& item);
  std::optional<Item> next_item();
  void put_back(Item&& item);
  void describe(std::string& out) const;

  std::int64_t capacity_;
  bool closed_ = false;
  std::uint64_t next_number_ = 0;
  detail::Ring<Item> items_;
  List<detail::ChannelSend<T>> senders_;       // only while the channel is full
  List<detail::ChannelReceive<T>> receivers_;  // only while it is empty
  List<detail::ChannelReceive<T>> granted_;    // got a value, or learned of the close, and did not go on yet
};

template <class T>
Channel<T>::~Channel() {
  while (detail::ChannelSend<T>* const sender = senders_.first()) {
    sender->unlink();
    sender->channel_ = nullptr;
  }
  for (List<detail::ChannelReceive<T>>* const list : {&receivers_, &granted_}) {
    while (detail::ChannelReceive<T>* const receiver = list->first()) {
      receiver->unlink();
      receiver->channel_ = nullptr;
    }
  }
}

template <class T>
bool Channel<T>::try_send(T& value) {
  if (closed_) throw std::logic_error("'" + name() + "': a value was sent after the channel was closed");
  if (receivers_.empty() && (items_.size() >= capacity_ || !senders_.empty())) return false;
  deliver({std::move(value), next_number_++});
  return true;
}

/// To the first receiver that waits, or to the end of the queue.
template <class T>
void Channel<T>::deliver(Item&& item) {
  if (receivers_.empty()) return items_.push_back(std::move(item));
  detail::ChannelReceive<T>& receiver = receivers_.front();
  receiver.unlink();
  receiver.item_.emplace(std::move(item));
  granted_.push_back(receiver);
  receiver.wake();
}

template <class T>
std::optional<detail::Numbered<T>> Channel<T>::next_item() {
  std::optional<Item> item;
  if (!items_.empty()) item.emplace(items_.pop_front());
  if (!senders_.empty() && items_.size() < std::max<std::int64_t>(capacity_, item ? 0 : 1)) {
    detail::ChannelSend<T>& sender = senders_.front();
    sender.unlink();
    sender.wake();
    Item sent{std::move(sender.value_), next_number_++};
    if (item)
      items_.push_back(std::move(sent));
    else
      item.emplace(std::move(sent));
  }
  return item;
}

template <class T>
std::optional<T> Channel<T>::try_receive() {
  std::optional<T> value;
  if (std::optional<Item> item = next_item()) value.emplace(std::move(item->value));
  return value;
}

/// A receiver was cancelled after it had been given `item`. Where the channel is closed, those who were to get nothing
/// did not go on yet, or they would have got it before.
template <class T>
void Channel<T>::put_back(Item&& item) {
  if (!receivers_.empty()) return deliver(std::move(item));
  for (detail::ChannelReceive<T>* other = granted_.first(); other != nullptr; other = granted_.after(*other))
    if (!other->item_) return void(other->item_.emplace(std::move(item)));
  items_.insert(std::move(item));
}

template <class T>
void Channel<T>::close() {
  closed_ = true;
  while (detail::ChannelReceive<T>* const receiver = receivers_.first()) {
    receiver->unlink();
    granted_.push_back(*receiver);
    receiver->wake();
  }
}

template <class T>
void Channel<T>::describe(std::string& out) const {
  append_quoted(out, name());
  if (items_.empty())
    out += " (empty)";
  else
    out += " (" + std::to_string(size()) + " of " + std::to_string(capacity_) + " values)";
}

}  // namespace orrery::sim
