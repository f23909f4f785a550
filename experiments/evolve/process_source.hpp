// Candidates from a program of the user's, over lines of JSON on its standard input and output.
//
//   we:  {"type": "problem", "protocol": 1, "path": …, "objective": …, "fields": […], "functions": […], "limits": …}
//   we:  {"type": "propose", "generation": 0, "results": [], "best": null}
//   it:  {"generation": 0, "candidates": ["predicted_left", "predicted_left - 20 * waited_s"]}
//   we:  {"type": "propose", "generation": 1, "results": [{"expression": …, "figure": …, …}], "best": {…}}
//   …
//   we:  {"type": "end", "best": {…}}, and the end of its input
//
// An answer is one line, within the study's limit of time. What it says is text to our parser and nothing else: no
// code of the program's is run here. Lines that are no answer, answers that come late, candidates past the bounds or
// the count are counted, said in the notes, and never end the search; a program that is gone does, with what there is.
#pragma once

#include <memory>
#include <string>

#include "experiments/evolve/evolution.hpp"
#include "sim/child_process.hpp"

namespace orrery::experiments::evolve {

/// What a program did that was not asked for.
struct ProposerCounts {
  std::int64_t answers = 0;
  std::int64_t garbage = 0;   ///< lines that are no answer
  std::int64_t overlong = 0;  ///< lines past the bound
  std::int64_t late = 0;      ///< generations without an answer in time
  std::int64_t stale = 0;     ///< answers to a generation that is over
  std::int64_t surplus = 0;   ///< candidates past the most of an answer
  std::int64_t no_text = 0;   ///< candidates that are no text
  bool gone = false;
};

/// The candidates of a line that answers for `generation`, at most `most`; nothing for another line, which is counted.
std::optional<std::vector<std::string>> read_answer(const std::string& line, std::int64_t generation, std::int64_t most,
                                                    ProposerCounts& counts);

class ProcessSource final : public Source {
 public:
  /// Starts `command` in a shell and tells it the problem. Borrows the study.
  ProcessSource(const EvolveStudy& study, const std::string& command);
  ~ProcessSource() override;

  /// Throws sim::ConfigError where the program ends before it ever answered.
  std::vector<Proposal> propose(std::int64_t generation, const Archive& archive) override;
  void told(std::span<const Verdict> verdicts, const Archive& archive) override;
  bool ended() const override { return counts_.gone; }
  std::vector<std::string> notes() const override;
  const ProposerCounts& counts() const { return counts_; }

 private:
  std::vector<std::string> asked(std::int64_t generation);
  void say(const sim::Node& message);

  const EvolveStudy& study_;
  std::string command_;
  ProposerCounts counts_;
  std::unique_ptr<sim::LineProcess> process_;
  sim::Node results_ = sim::Node::array();  ///< of the last generation
  sim::Node best_;
};

/// The first message: what may be proposed, and what for.
sim::Node problem_message(const EvolveStudy& study);

}  // namespace orrery::experiments::evolve
