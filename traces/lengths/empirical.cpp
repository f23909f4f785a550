// empirical: lengths of a real trace, drawn with replacement (the bootstrap). Prompt and answer of a row stay together,
// so their correlation is kept. The pairs are read into memory once per trace: 16 bytes a row.
#include <vector>

#include "traces/lengths/lengths.hpp"

namespace orrery::traces::lengths {
namespace {

class Empirical final : public LengthSampler {
 public:
  Empirical(const TraceParams& params, const FormatTable& formats) {
    const std::unique_ptr<TraceSource> source = open_trace(params, formats);
    TraceRecord record;
    while (source->next(record)) rows_.push_back({record.prompt_tokens, record.output_tokens});
  }
  Lengths sample(sim::RandomStream& random) override { return rows_[random.below(rows_.size())]; }

 private:
  std::vector<Lengths> rows_;
};

}  // namespace

void add_empirical(LengthRegistry& registry, const FormatTable& formats) {
  registry.add<TraceParams>(
      "empirical", "Rows of a real trace, drawn with replacement.",
      [formats](const TraceParams& params) { return std::make_unique<Empirical>(params, formats); });
}

}  // namespace orrery::traces::lengths
