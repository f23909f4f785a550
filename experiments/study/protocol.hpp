// Points evaluated by another process: JSON lines over its stdin and stdout (docs/explain/studies.md, "Another
// process").
//
//   head    {"protocol": 1, "measures": {"ttft": "ttft_s.p99"}}
//   helper  {"protocol": 1, "version": "0.2.0", "build": "…"}
//   head    {"id": 1, "key": "…", "config": {…}}
//   helper  {"id": 1, "key": "…", "status": "ok", "reason": null, "figures": {"ttft": 0.31}}
//          and "absent": {"ttft": "…"} where the summary does not have a measure
//
// "ends": [{"path": "ttft_s.p99", "above": 4}] in the head's first line: runs end once that is certain.
//
// The head proposes and stores; a helper holds nothing between lines, so it may be killed and its points given to
// another. A key says what config and inputs the head means: a helper that comes to another one refuses.
#pragma once

#include <istream>
#include <ostream>

#include "experiments/study/runs.hpp"

namespace orrery::experiments::study {

/// First line of the head.
sim::Node protocol_header(const Study& study);
/// A run that has become a text as the head asks for it, a line of JSON without its end; paths in the config are
/// relative to the working folder, as in Experiment::resolved.
std::string protocol_request(std::int64_t id, const PreparedRun& run);

/// What a helper answered to it.
RunOutcome protocol_answer(const sim::Node& node, std::span<const Measure> measures);

/// The helper: answers line by line until the input ends. Throws sim::ConfigError for lines that are none of the
/// protocol; what is wrong with a config is a failed result.
void evaluate_points(const Systems& systems, std::istream& in, std::ostream& out);

}  // namespace orrery::experiments::study
