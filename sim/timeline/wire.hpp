// Fields of protobuf's wire format, read in place: what a timeline's reader needs, and no more. Groups (an old form)
// are not read. Source: https://protobuf.dev/programming-guides/encoding.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace orrery::sim::wire {

enum class Type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// A field of a message: its number, and its value as a number or as bytes.
struct Field {
  std::uint32_t number = 0;
  Type type = Type::varint;
  std::uint64_t value = 0;
  std::string_view bytes;

  double real() const { return std::bit_cast<double>(value); }
  /// Number and type in one, for a switch.
  constexpr std::uint32_t key() const { return number << 3 | static_cast<std::uint32_t>(type); }
};
constexpr std::uint32_t key(std::uint32_t number, Type type) {
  return number << 3 | static_cast<std::uint32_t>(type);
}

/// The fields of a message, one after another. Throws std::runtime_error where the message ends in the middle of
/// one, or where none can begin.
class Message {
 public:
  explicit Message(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  /// The next field; false at the end.
  bool next(Field& field) {
    if (at_ == end_) return false;
    const std::uint64_t head = varint();
    if (head >> 32 != 0) throw std::runtime_error("a field's number is beyond 29 bits");
    field.number = static_cast<std::uint32_t>(head >> 3);
    field.type = static_cast<Type>(head & 7);
    switch (field.type) {
      case Type::varint:
        field.value = varint();
        return true;
      case Type::fixed64:
        field.value = fixed<std::uint64_t>();
        return true;
      case Type::fixed32:
        field.value = fixed<std::uint32_t>();
        return true;
      case Type::bytes: {
        const std::uint64_t size = varint();
        if (size > static_cast<std::uint64_t>(end_ - at_)) fail();
        field.bytes = {at_, static_cast<std::size_t>(size)};
        at_ += size;
        return true;
      }
    }
    fail();
  }

 private:
  [[noreturn]] static void fail() { throw std::runtime_error("a message ends in the middle of a field"); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) fail();
      const auto byte = static_cast<std::uint8_t>(*at_++);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  template <class T>
  T fixed() {
    static_assert(std::endian::native == std::endian::little);
    T value{};
    if (static_cast<std::size_t>(end_ - at_) < sizeof value) fail();
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  const char* at_;
  const char* end_;
};

}  // namespace orrery::sim::wire
