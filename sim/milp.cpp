#include "sim/milp.hpp"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "sim/base/fault.hpp"
#include "sim/child_process.hpp"

namespace orrery::sim {
namespace {

constexpr std::size_t kTermsOfLine = 8;  // LP lines are short

/// "3 x0 - 2 x1", each variable once; "0 x0" for nothing.
std::string sum_text(const Milp::Terms& terms) {
  std::map<Milp::Variable, double> merged;
  for (const auto& [variable, coefficient] : terms) merged[variable] += coefficient;
  std::string text;
  std::size_t written = 0;
  for (const auto& [variable, coefficient] : merged) {
    if (coefficient == 0) continue;
    if (written > 0) text += written % kTermsOfLine == 0 ? "\n   " : " ";
    if (coefficient < 0) text += "- ";
    if (coefficient > 0 && written > 0) text += "+ ";
    text += fmt::format("{} x{}", std::abs(coefficient), variable);
    ++written;
  }
  return text.empty() ? "0 x0" : text;
}

/// A name in a comment: one line.
std::string plain(std::string name) {
  for (char& c : name)
    if (c == '\n' || c == '\r') c = ' ';
  return name;
}

}  // namespace

Milp::Variable Milp::add_variable(std::string name, Kind kind, double low, double high) {
  if (kind == Kind::binary) {
    low = std::max(low, 0.0);
    high = std::min(high, 1.0);
  }
  if (!(low <= high)) throw std::invalid_argument(fmt::format("variable '{}': low {} above high {}", name, low, high));
  variables_.push_back({std::move(name), kind, low, high});
  return variables_.size() - 1;
}

void Milp::check(const Terms& terms) const {
  for (const auto& [variable, coefficient] : terms) {
    if (variable >= variables_.size())
      throw std::invalid_argument(fmt::format("variable {} of {}", variable, variables_.size()));
    if (!std::isfinite(coefficient))
      throw std::invalid_argument(fmt::format("coefficient of '{}' is not finite", variables_[variable].name));
  }
}

void Milp::add_constraint(std::string name, Terms terms, Sense sense, double bound) {
  check(terms);
  if (!std::isfinite(bound)) throw std::invalid_argument(fmt::format("bound of '{}' is not finite", name));
  rows_.push_back({std::move(name), std::move(terms), sense, bound});
}

void Milp::set_objective(Terms terms, bool maximise) {
  check(terms);
  objective_ = std::move(terms);
  maximise_ = maximise;
}

std::string Milp::lp_text() const {
  std::string text;
  for (std::size_t i = 0; i < variables_.size(); ++i) text += fmt::format("\\ x{}: {}\n", i, plain(variables_[i].name));
  text += fmt::format("{}\n obj: {}\nSubject To\n", maximise_ ? "Maximize" : "Minimize", sum_text(objective_));
  if (rows_.empty()) text += " none: 0 x0 >= -1\n";
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const char* sense = row.sense == Sense::at_most ? "<=" : row.sense == Sense::at_least ? ">=" : "=";
    text += fmt::format("\\ {}\n c{}: {} {} {}\n", plain(row.name), i, sum_text(row.terms), sense, row.bound);
  }
  text += "Bounds\n";
  std::string whole;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const Column& column = variables_[i];
    const auto end = [](double x) { return std::isinf(x) ? (x < 0 ? "-inf" : "inf") : fmt::format("{}", x); };
    if (std::isinf(column.low) && std::isinf(column.high))
      text += fmt::format(" x{} free\n", i);
    else
      text += fmt::format(" {} <= x{} <= {}\n", end(column.low), i, end(column.high));
    if (column.kind != Kind::real) whole += fmt::format(" x{}\n", i);
  }
  if (!whole.empty()) text += "General\n" + whole;
  return text + "End\n";
}

Milp::Solution Milp::read_solution(const std::string& text) const {
  std::istringstream lines(text);
  std::string status;
  std::getline(lines, status);
  const auto says = [&](const char* what) { return status.find(what) != std::string::npos; };
  Solution solution;
  using Status = Solution::Status;
  if (says("nfeasible"))
    solution.status = Status::infeasible;
  else if (says("Unbounded"))
    solution.status = Status::unbounded;
  else if (says("Optimal"))
    solution.status = Status::optimal;
  else if (says("Stopped") && !says("no integer solution"))
    solution.status = Status::feasible;
  if (!solution.solved()) return solution;
  solution.values.assign(variables_.size(), 0);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);  // "  3 x3  1  0", "**" before what breaks a limit
    std::string word;
    words >> word;
    if (word == "**") words >> word;
    std::string name;
    double value = 0;
    if (!(words >> name >> value) || name.empty() || name[0] != 'x') continue;
    const auto index = static_cast<std::size_t>(std::stoul(name.substr(1)));
    if (index < solution.values.size()) solution.values[index] = value;
  }
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (variables_[i].kind != Kind::real) solution.values[i] = std::round(solution.values[i]);
  for (const auto& [variable, coefficient] : objective_) solution.objective += coefficient * solution.values[variable];
  return solution;
}

Milp::Solution Milp::solve(double seconds, const std::string& program) const {
  if (variables_.empty()) return {.status = Solution::Status::optimal};
  const auto found = find_program(program);
  if (!found)
    sim::throw_fault({program, ""}, "expected the solver CBC on PATH, found none",
                     "install Debian's coinor-cbc (tools/setup optional)");
  const TemporaryFolder folder;
  const auto lp = folder.path() / "program.lp", sol = folder.path() / "solution.txt";
  std::ofstream(lp) << lp_text();
  // CBC looks at its limit between steps; ours ends it where it does not.
  const auto code = run_program({found->string(), lp.string(), "timeMode", "elapsed", "sec", fmt::format("{}", seconds),
                                 "solve", "solution", sol.string()},
                                2 * seconds + 10);
  std::ifstream file(sol);
  if (!file) {
    if (!code) return {};
    sim::throw_fault({found->string(), ""},
                     fmt::format("expected a solution file, got none (exit code {}); is it CBC?", *code));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return read_solution(text.str());
}

}  // namespace orrery::sim
