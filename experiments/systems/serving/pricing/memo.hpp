// Answers to questions asked lately, bounded in number. One that was pushed out is made again, so who asks twice gets
// the same, whatever was asked in between.
//
// Answers lie in the order in which they were made, so a run that repeats another reads them one after the other. A
// table of places says where: a question has two places side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace orrery::experiments {

/// `Key` has operator== and `std::uint64_t hash() const`, all of whose bits are mixed.
template <class Key, class Value>
class Memo {
 public:
  /// For so many answers, some hundred at least.
  explicit Memo(std::size_t most) : most_(most), places_(std::size_t{1} << bits_) {}

  /// The answer to `key`: what is remembered, or what `make(value)` leaves in a value of some earlier answer. It stays
  /// until the next call.
  template <class Make>
  const Value& get(const Key& key, Make make) {
    const std::uint64_t hash = key.hash();
    std::size_t place = place_of(hash);
    for (const std::size_t at : {place, place ^ 1}) {
      const Place& known = places_[at];
      if (known.tag == tag_of(hash) && known.answer != kNone && answers_[known.answer].key == key)
        return answers_[known.answer].value;
    }
    if (2 * answers_.size() >= places_.size() && answers_.size() < most_) {
      grow();
      place = place_of(hash);
    }
    if (places_[place].answer != kNone && places_[place ^ 1].answer == kNone) place ^= 1;
    const std::uint32_t answer = take(place);
    make(answers_[answer].value);  // what throws leaves no answer
    answers_[answer].key = key;
    answers_[answer].place = place;
    places_[place] = {tag_of(hash), answer};
    return answers_[answer].value;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Place {
    std::uint32_t tag = 0, answer = kNone;
  };
  struct Answer {
    Key key{};
    std::size_t place = 0;
    Value value{};
  };
  std::size_t place_of(std::uint64_t hash) const { return static_cast<std::size_t>(hash >> (64 - bits_)); }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }

  /// An answer that is nobody's, for this place: what was there, a new one, or the one that was made first.
  std::uint32_t take(std::size_t place) {
    std::uint32_t answer = places_[place].answer;
    if (answer == kNone && answers_.size() < most_) {
      answer = static_cast<std::uint32_t>(answers_.size());
      answers_.emplace_back();
    } else if (answer == kNone) {
      answer = static_cast<std::uint32_t>(oldest_++ % answers_.size());
      if (Place& before = places_[answers_[answer].place]; before.answer == answer) before = {};
    }
    places_[place] = {};
    return answer;
  }

  void grow() {
    std::vector<Place> before(places_.size() * 4);
    before.swap(places_);
    bits_ += 2;
    for (const Place& known : before) {
      if (known.answer == kNone) continue;
      Answer& answer = answers_[known.answer];
      answer.place = place_of(answer.key.hash());
      if (places_[answer.place].answer != kNone) answer.place ^= 1;
      places_[answer.place] = known;
    }
  }

  unsigned bits_ = 8;
  std::size_t most_, oldest_ = 0;
  std::vector<Place> places_;
  std::vector<Answer> answers_;
};

}  // namespace orrery::experiments
