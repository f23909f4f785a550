#include "models/sym/expr_program.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>
#include <thread>

#include "tests/models/sym_random.hpp"

namespace orrery::models::test_expr_program {
namespace {

const SymExpr a = SymExpr::dim("a"), b = SymExpr::dim("b");
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::vector<std::int64_t> values_of(const std::vector<SymExpr>& outputs, std::vector<std::int64_t> values) {
  const std::vector<Symbol> inputs{Symbol("a"), Symbol("b")};
  const ExprProgram program(outputs, inputs);
  std::vector<std::int64_t> out(outputs.size());
  program.evaluate(values, out);
  return out;
}

TEST_CASE("a program has each common subexpression once", "[unit]") {
  const std::vector<Symbol> inputs{Symbol("a"), Symbol("b")};
  // a*b, then + 1, then * 6, then a*b * b: the product is shared.
  const ExprProgram program(std::vector<SymExpr>{a * b + 1, 6 * a * b, a * b * b}, inputs);
  CHECK(program.nodes() == 4);
  CHECK(program.inputs() == 2);
  CHECK(program.outputs() == 3);
  CHECK(values_of({a * b + 1, 6 * a * b, a * b * b}, {3, 5}) == std::vector<std::int64_t>{16, 90, 75});
}

TEST_CASE("a program may give back inputs, numbers and one value twice", "[unit]") {
  CHECK(values_of({a, 7, b, a, 7, 0}, {3, 5}) == std::vector<std::int64_t>{3, 7, 5, 3, 7, 0});
  const ExprProgram numbers(std::vector<SymExpr>{4, 5}, {});
  std::vector<std::int64_t> out(2);
  numbers.evaluate({}, out);
  CHECK(out == std::vector<std::int64_t>{4, 5});
  CHECK_THROWS_WITH(ExprProgram(std::vector<SymExpr>{a * SymExpr::dim("c")}, std::vector<Symbol>{Symbol("a")}),
                    "no value for dimension 'c'");
}

TEST_CASE("a program refuses what wraps, at any point of a batch", "[unit]") {
  CHECK(values_of({a + b, a - b}, {kMax - 1, 1}) == std::vector<std::int64_t>{kMax, kMax - 2});
  CHECK_THROWS_AS(values_of({a + b}, {kMax, 1}), std::overflow_error);
  CHECK_THROWS_AS(values_of({a * b}, {kMax, 2}), std::overflow_error);
  CHECK_THROWS_AS(values_of({b - a}, {kMax, -2}), std::overflow_error);
  CHECK_THROWS_AS(values_of({a + 5}, {kMax, 1}), std::overflow_error);
  CHECK_THROWS_AS(values_of({3 * a}, {kMax, 1}), std::overflow_error);
  CHECK_THROWS_AS(values_of({b + 3 * a}, {kMax, 1}), std::overflow_error);
  CHECK_THROWS_WITH(values_of({floor_div(a, b)}, {4, 0}), "symbolic expression: a divisor that is not positive");
  const ExprProgram program(std::vector<SymExpr>{a * a}, std::vector<Symbol>{Symbol("a")});
  std::vector<std::int64_t> values(1000, 3), out(1000);
  program.evaluate_batch(1000, values, out);
  CHECK(out == std::vector<std::int64_t>(1000, 9));
  values[700] = kMax;
  CHECK_THROWS_AS(program.evaluate_batch(1000, values, out), std::overflow_error);
}

TEST_CASE("a flat program gives what its expressions give, point by point and in a batch", "[prop]") {
  test::Draw draw(2);
  std::vector<Symbol> inputs;
  for (const char* name : test::kNames) inputs.emplace_back(name);
  for (int i = 0; i < 300; ++i) {
    const auto points = static_cast<std::size_t>(draw.integer(1, 300));
    std::vector<Bindings> sizes;
    for (std::size_t p = 0; p < points; ++p) sizes.push_back(test::random_sizes(draw));
    std::vector<SymExpr> outputs;
    for (std::int64_t k = draw.integer(1, 12); k > 0; --k)
      outputs.push_back(test::random_pair(draw, sizes[0], static_cast<int>(draw.integer(1, 4))).expr);
    const ExprProgram program(outputs, inputs);
    std::vector<std::int64_t> columns, batch(outputs.size() * points);
    for (const Symbol input : inputs)
      for (const Bindings& at : sizes) columns.push_back(at.at(input));
    program.evaluate_batch(points, columns, batch);
    for (std::size_t p = 0; p < points; ++p) {
      std::vector<std::int64_t> values, out(outputs.size());
      for (const Symbol input : inputs) values.push_back(sizes[p].at(input));
      program.evaluate(values, out);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        INFO(outputs[k].to_string());
        REQUIRE(out[k] == outputs[k].eval(sizes[p]));
        REQUIRE(batch[k * points + p] == out[k]);
      }
    }
  }
}

TEST_CASE("threads agree on dimensions and evaluate one program", "[unit]") {
  const ExprProgram program(std::vector<SymExpr>{a * b + ceil_div(a, 3)},
                            std::vector<Symbol>{Symbol("a"), Symbol("b")});
  std::vector<std::int64_t> sums(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 2000; ++i) {
        const Symbol fresh("thread_dim." + std::to_string(i));
        std::int64_t out = 0;
        program.evaluate(std::vector<std::int64_t>{i, 2}, {&out, 1});
        sums[t] += out + static_cast<std::int64_t>((SymExpr(fresh) + a - SymExpr(fresh) == a));
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(sums == std::vector<std::int64_t>(4, sums[0]));
  CHECK(Symbol("thread_dim.7") == Symbol("thread_dim.7"));
}

}  // namespace
}  // namespace orrery::models::test_expr_program
