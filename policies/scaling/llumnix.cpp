// Llumnix: as many replicas as keep freeness between two thresholds.
//
// F is the mean freeness (policies/routing/load_report.hpp): the room of all replicas together over the requests that
// share it; a replica on its way up counts as an empty one. Below `threshold` so many come that F would be back at it,
//     n = ceil((threshold x requests - room) / blocks of a replica);
// above `threshold` + `band` one goes. That it then finishes or gives away what it has is the cluster's business: under
// migration its requests leave at once, for a replica that is to go is full without end. Source: Llumnix (OSDI 2024,
// section 4.4.3) and its artefact: threshold 10, band 50, 1 to 16 replicas.
#include "policies/routing/load_report.hpp"
#include "policies/scaling/scaling.hpp"

namespace orrery::policies {
namespace {

struct LlumnixScalingParams {
  double threshold = 10, band = 50;
  FreenessParams freeness;

  static constexpr auto fields() {
    using P = LlumnixScalingParams;
    return sim::FieldTable{sim::field("threshold", &P::threshold, sim::Unit::none, sim::any_value(),
                                      "Mean freeness below which replicas are started."),
                           sim::field("band", &P::band, sim::Unit::none, sim::at_least(0),
                                      "How far above the threshold mean freeness must be for a replica to be stopped."),
                           sim::field("freeness", &P::freeness, "How the freeness of a replica is computed.")};
  }
};

class LlumnixScaling final : public Scaling {
 public:
  explicit LlumnixScaling(const LlumnixScalingParams& params) : params_(params) {}
  bool reads_reports() const override { return true; }

  std::int64_t wanted(const ScalingView& view) override {
    if (view.replicas.empty()) return view.up() + (view.parked > 0 && view.starting == 0 ? 1 : 0);
    Room all;
    std::int64_t blocks = 0;
    for (const ReplicaFacts& facts : view.replicas) {
      const Room own = room(facts.load, params_.freeness, RoomFor::running);
      all.blocks += own.blocks;
      all.requests += own.requests;
      blocks += facts.load.total_blocks;
    }
    const double one = static_cast<double>(blocks) / static_cast<double>(std::ssize(view.replicas));
    const double free = static_cast<double>(all.blocks) + one * static_cast<double>(view.starting);
    const auto requests = static_cast<double>(all.requests);
    if (free < params_.threshold * requests) {
      const double exact = (params_.threshold * requests - free) / one;
      const auto whole = static_cast<std::int64_t>(exact);
      return view.up() + whole + (static_cast<double>(whole) < exact ? 1 : 0);
    }
    return view.up() - (free > (params_.threshold + params_.band) * requests ? 1 : 0);
  }

 private:
  LlumnixScalingParams params_;
};

}  // namespace

void add_llumnix_scaling(ScalingRegistry& registry) {
  registry.add<LlumnixScalingParams>(
      "llumnix", "As many replicas as keep the mean freeness between two thresholds (Llumnix, OSDI 2024).",
      [](const LlumnixScalingParams& params) { return std::make_unique<LlumnixScaling>(params); });
}

}  // namespace orrery::policies
