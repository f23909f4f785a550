// Mixed-integer linear programs: formulate, write as an LP file, let CBC solve, read back.
//
// For plans that are linear: placements, assignments, schedules by time slot. CBC (Debian: coinor-cbc) is a program of
// its own, found on PATH when it is needed; without it solve() says what to install. That a program is infeasible or
// unbounded is a result. Files live in a folder of their own under the system's temporary one, removed in any case.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace orrery::sim {

class Milp {
 public:
  enum class Kind : std::uint8_t { real, integer, binary };
  enum class Sense : std::uint8_t { at_most, at_least, equal };
  static constexpr double kFree = std::numeric_limits<double>::infinity();
  using Variable = std::size_t;
  using Terms = std::vector<std::pair<Variable, double>>;

  /// A variable in [low, high] (either may be infinite). Throws std::invalid_argument unless low <= high.
  Variable add_variable(std::string name, Kind kind = Kind::real, double low = 0, double high = kFree);
  /// Sum of coefficient times variable against a bound; a variable may come several times. Throws std::invalid_argument
  /// for a variable that there is not, or a figure that is not finite.
  void add_constraint(std::string name, Terms terms, Sense sense, double bound);
  void minimise(Terms terms) { set_objective(std::move(terms), false); }
  void maximise(Terms terms) { set_objective(std::move(terms), true); }

  std::size_t variables() const { return variables_.size(); }
  const std::string& name(Variable variable) const { return variables_[variable].name; }

  /// The program in CPLEX's LP format; variables are x0, x1, … (any name is legal here), comments tell their names.
  std::string lp_text() const;

  struct Solution {
    enum class Status : std::uint8_t {
      optimal,
      feasible,  ///< the time limit came first
      infeasible,
      unbounded,
      unknown  ///< the time limit came before any solution
    };
    Status status = Status::unknown;
    double objective = 0;
    std::vector<double> values;  ///< by variable; empty unless there is a solution; integers are whole
    bool solved() const { return status == Status::optimal || status == Status::feasible; }
  };
  /// Runs `program` for at most `seconds`. Throws sim::ConfigError if it is not on PATH, or ends without a solution
  /// file.
  Solution solve(double seconds = 60, const std::string& program = "cbc") const;

 private:
  struct Column {
    std::string name;
    Kind kind;
    double low, high;
  };
  struct Row {
    std::string name;
    Terms terms;
    Sense sense;
    double bound;
  };
  void check(const Terms& terms) const;
  void set_objective(Terms terms, bool maximise);
  Solution read_solution(const std::string& text) const;

  std::vector<Column> variables_;
  std::vector<Row> rows_;
  Terms objective_;
  bool maximise_ = false;
};

}  // namespace orrery::sim
