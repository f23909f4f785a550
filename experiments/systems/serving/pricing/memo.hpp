// Answers to questions asked lately: a table in which a question has one place, so that what it holds is bounded. An
// answer that another has pushed out is made again, so who asks twice gets the same, whatever was asked in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery::experiments {

/// `Key` has operator== and `std::uint64_t hash() const`, whose upper bits say most.
template <class Key, class Value>
class Memo {
 public:
  /// For 2^most_bits answers; it begins with few places and doubles them as they fill.
  explicit Memo(unsigned most_bits) : most_bits_(most_bits), slots_(std::size_t{1} << bits_) {}

  /// The answer to `key`: what is remembered, or what `make(value)` leaves in a value of some earlier answer. It stays
  /// until the next call.
  template <class Make>
  const Value& get(const Key& key, Make make) {
    Slot* slot = &slots_[place(key)];
    if (slot->known && slot->key == key) return slot->value;
    if (!slot->known && bits_ < most_bits_ && 2 * ++known_ > slots_.size()) {
      grow();
      slot = &slots_[place(key)];
    }
    slot->known = false;  // what throws leaves no answer
    make(slot->value);
    slot->key = key;
    slot->known = true;
    return slot->value;
  }

 private:
  struct Slot {
    Key key{};
    Value value{};
    bool known = false;
  };
  std::size_t place(const Key& key) const { return static_cast<std::size_t>(key.hash() >> (64 - bits_)); }
  void grow() {
    std::vector<Slot> before(slots_.size() * 4);
    before.swap(slots_);
    bits_ += 2;
    known_ = 1;
    for (Slot& slot : before) {
      if (!slot.known) continue;
      slots_[place(slot.key)] = std::move(slot);
      ++known_;
    }
  }

  unsigned bits_ = 6, most_bits_;
  std::size_t known_ = 0;  // places taken
  std::vector<Slot> slots_;
};

}  // namespace orrery::experiments
