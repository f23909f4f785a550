// Checkpoints: state as bytes, written and read by the same code.
//
// A class has one function `void state(Archive&)` that names its state; whether it is written or read is the archive's
// business, so that the two cannot drift apart. Numbers are kept bit for bit (little-endian, as memory has them).
// Reading from bytes that end too soon, or that leave some over, throws std::runtime_error.
#pragma once

#include <Eigen/Core>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

namespace orrery::experiments::rl {

static_assert(std::endian::native == std::endian::little, "checkpoints hold numbers as memory has them");

class Archive {
 public:
  /// Writes.
  Archive() = default;
  /// Reads these bytes.
  explicit Archive(std::string bytes) : bytes_(std::move(bytes)), reading_(true) {}

  bool reading() const { return reading_; }
  const std::string& bytes() const { return bytes_; }
  /// Throws if bytes are left that nobody read.
  void finish() const;

  template <class... Ts>
  void operator()(Ts&... values) {
    (visit(values), ...);
  }

 private:
  void raw(void* data, std::size_t size);
  std::size_t length(std::size_t size, std::size_t each);

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void visit(T& value) { raw(&value, sizeof(T)); }

  void visit(std::string& text) {
    text.resize(length(text.size(), 1));
    raw(text.data(), text.size());
  }

  template <class T>
  void visit(std::vector<T>& values) {
    values.resize(length(values.size(), std::is_arithmetic_v<T> ? sizeof(T) : 1));
    if constexpr (std::is_arithmetic_v<T>) {
      raw(values.data(), values.size() * sizeof(T));
    } else {
      for (T& value : values) visit(value);
    }
  }

  /// Matrices and vectors of Eigen keep the size that they have: state is read into networks of the same shape.
  template <class D>
  void visit(Eigen::PlainObjectBase<D>& matrix) {
    const std::size_t size = length(static_cast<std::size_t>(matrix.size()), sizeof(double));
    if (size != static_cast<std::size_t>(matrix.size())) mismatch();
    raw(matrix.data(), size * sizeof(double));
  }

  template <class T>
  requires requires(T& value, Archive& archive) { value.state(archive); }
  void visit(T& value) { value.state(*this); }

  [[noreturn]] static void mismatch();

  std::string bytes_;
  std::size_t place_ = 0;
  bool reading_ = false;
};

/// Writes a checkpoint file: a header that names `identity`, the bytes, and their hash; first under another name.
void write_checkpoint(const std::filesystem::path& path, const std::string& identity, const Archive& archive);
/// Whether a file begins as a checkpoint of this identity does; of any, where that is empty.
bool is_checkpoint(const std::filesystem::path& path, const std::string& identity);
/// Reads one back. Throws sim::ConfigError if it cannot be read, is no checkpoint or not whole, or belongs to another
/// identity.
Archive read_checkpoint(const std::filesystem::path& path, const std::string& identity);

}  // namespace orrery::experiments::rl
