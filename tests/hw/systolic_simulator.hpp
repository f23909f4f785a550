// A systolic array, cell by cell and cycle by cycle: the slow oracle of hw/npu/systolic.hpp.
//
// Operands enter at the edges, skewed by one cycle a row or column, and move one cell a cycle; nothing is known of any
// formula. Folds are padded with zeros to the whole array, and padding is not counted as traffic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hw/npu/systolic.hpp"

namespace orrery::hw::test {

/// A matrix of small integers; reads outside are padding.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> values = {};
  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  bool holds(std::int64_t r, std::int64_t c) const { return r >= 0 && r < rows && c >= 0 && c < columns; }
  std::int64_t& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  std::int64_t get(std::int64_t r, std::int64_t c) const {
    return holds(r, c) ? values[static_cast<std::size_t>(r * columns + c)] : 0;
  }
  Matrix transposed() const {
    Matrix t(columns, rows);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) t.at(c, r) = get(r, c);
    return t;
  }
};

struct ArrayRun {
  Matrix c;
  std::int64_t cycles = 0;
  SystolicTraffic traffic;
};

class ArraySimulator {
 public:
  explicit ArraySimulator(const SystolicShape& array) : a_(array.rows), b_(array.columns) {}

  ArrayRun run(const Matrix& a, const Matrix& b, Dataflow dataflow) {
    if (dataflow == Dataflow::is) {  // the stationary operand is A: the transposed product
      ArrayRun t = run(b.transposed(), a.transposed(), Dataflow::ws);
      t.c = t.c.transposed();
      std::swap(t.traffic.input_reads, t.traffic.weight_reads);
      return t;
    }
    ArrayRun out{Matrix(a.rows, b.columns)};
    if (dataflow == Dataflow::ws) {
      for (std::int64_t n0 = 0; n0 < b.columns; n0 += b_)
        for (std::int64_t k0 = 0; k0 < b.rows; k0 += a_) weights_fold(a, b, k0, n0, out);
    } else {
      for (std::int64_t m0 = 0; m0 < a.rows; m0 += a_)
        for (std::int64_t n0 = 0; n0 < b.columns; n0 += b_) outputs_fold(a, b, m0, n0, out);
    }
    return out;
  }

 private:
  Matrix cells() const { return Matrix(a_, b_); }

  void weights_fold(const Matrix& a, const Matrix& b, std::int64_t k0, std::int64_t n0, ArrayRun& out) {
    Matrix weight = cells();
    for (std::int64_t step = 0; step < a_; ++step, ++out.cycles) {  // the last row of B goes in first
      for (std::int64_t r = a_ - 1; r > 0; --r)
        for (std::int64_t c = 0; c < b_; ++c) weight.at(r, c) = weight.get(r - 1, c);
      const std::int64_t row = k0 + a_ - 1 - step;
      for (std::int64_t c = 0; c < b_; ++c) {
        weight.at(0, c) = b.get(row, n0 + c);
        out.traffic.weight_reads += b.holds(row, n0 + c) ? 1 : 0;
      }
    }
    Matrix input = cells(), sum = cells();
    std::int64_t left = a.rows * b_;  // results of the whole array, padding too
    for (std::int64_t s = 0; left > 0; ++s, ++out.cycles) {
      const Matrix before_input = input, before_sum = sum;
      for (std::int64_t r = 0; r < a_; ++r)
        for (std::int64_t c = 0; c < b_; ++c) {
          if (c == 0) {
            input.at(r, 0) = a.get(s - r, k0 + r);
            out.traffic.input_reads += a.holds(s - r, k0 + r) ? 1 : 0;
          } else {
            input.at(r, c) = before_input.get(r, c - 1);
          }
          sum.at(r, c) = before_sum.get(r - 1, c) + weight.get(r, c) * input.get(r, c);
        }
      for (std::int64_t c = 0; c < b_; ++c) {  // what the last row has just computed leaves
        const std::int64_t m = s - (a_ - 1) - c;
        if (m < 0 || m >= a.rows) continue;
        --left;
        if (!out.c.holds(m, n0 + c)) continue;
        out.traffic.output_reads += k0 > 0 ? 1 : 0;
        out.traffic.output_writes += 1;
        out.c.at(m, n0 + c) += sum.get(a_ - 1, c);
      }
    }
  }

  void outputs_fold(const Matrix& a, const Matrix& b, std::int64_t m0, std::int64_t n0, ArrayRun& out) {
    Matrix right = cells(), down = cells(), sum = cells(), count = cells();
    for (std::int64_t s = 0; count.get(a_ - 1, b_ - 1) < b.rows; ++s, ++out.cycles) {
      const Matrix before_right = right, before_down = down;
      for (std::int64_t r = 0; r < a_; ++r)
        for (std::int64_t c = 0; c < b_; ++c) {
          right.at(r, c) = c == 0 ? a.get(m0 + r, s - r) : before_right.get(r, c - 1);
          down.at(r, c) = r == 0 ? b.get(s - c, n0 + c) : before_down.get(r - 1, c);
          out.traffic.input_reads += c == 0 && a.holds(m0 + r, s - r) ? 1 : 0;
          out.traffic.weight_reads += r == 0 && b.holds(s - c, n0 + c) ? 1 : 0;
          sum.at(r, c) += right.get(r, c) * down.get(r, c);
          count.at(r, c) += s >= r + c ? 1 : 0;
        }
    }
    for (std::int64_t r = 0; r < a_; ++r)
      for (std::int64_t c = 0; c < b_; ++c)
        if (out.c.holds(m0 + r, n0 + c)) {
          out.c.at(m0 + r, n0 + c) = sum.get(r, c);
          out.traffic.output_writes += 1;
        }
  }

  std::int64_t a_, b_;
};

}  // namespace orrery::hw::test
