// Llumnix: sources are replicas whose freeness is below a threshold or that have preempted requests, destinations those
// above it without any; the worst is paired with the best, and so on. Of each source the latest-arrived running request
// in decode and of normal priority goes (of any, if high ones are not to be kept). Source: Llumnix (OSDI 2024,
// section 4.4.3) and its artefact (vllm/core/request_scheduler.py).
#include <algorithm>

#include "policies/migration/migration.hpp"

namespace orrery::policies {
namespace {

struct LlumnixParams {
  double threshold = 3;
  bool keep_high = true;
  FreenessParams freeness;

  static constexpr auto fields() {
    return sim::FieldTable{
        sim::field("threshold", &LlumnixParams::threshold, sim::Unit::none, sim::any_value(),
                   "Freeness below which a replica gives requests away, and above which it takes some."),
        sim::field("keep_high", &LlumnixParams::keep_high,
                   "Whether requests of high priority (above 0) stay where they are."),
        sim::field("freeness", &LlumnixParams::freeness, "How the freeness of a replica is computed.")};
  }
};

class LlumnixMigration final : public Migration {
 public:
  explicit LlumnixMigration(const LlumnixParams& params) : params_(params) {}

  std::vector<MigrationPair> pair(std::span<const LoadReport> loads) override {
    struct Entry {
      double freeness;
      std::size_t place;
    };
    std::vector<Entry> sources, destinations;
    for (std::size_t i = 0; i < loads.size(); ++i) {
      const double free = freeness(loads[i], params_.freeness, RoomFor::running);
      if ((free < params_.threshold || loads[i].preempted) && loads[i].running > 0) sources.push_back({free, i});
      if (free > params_.threshold && !loads[i].preempted) destinations.push_back({free, i});
    }
    const auto worst = [](const Entry& a, const Entry& b) { return a.freeness < b.freeness; };
    const auto best = [](const Entry& a, const Entry& b) { return a.freeness > b.freeness; };
    std::stable_sort(sources.begin(), sources.end(), worst);
    std::stable_sort(destinations.begin(), destinations.end(), best);
    std::vector<MigrationPair> pairs;
    for (std::size_t i = 0; i < std::min(sources.size(), destinations.size()); ++i)
      pairs.push_back({sources[i].place, destinations[i].place});
    return pairs;
  }

  std::optional<SeqId> victim(const BatchView& source) override {
    // By arrival in the system: one that has just come from elsewhere is not the latest, or it would go on at once.
    std::optional<SeqId> latest;
    for (const SeqId id : source.running) {
      const Sequence& seq = source[id];
      if (seq.phase != Phase::decode || (params_.keep_high && seq.priority > 0)) continue;
      if (!latest || std::pair(seq.arrived, seq.order) > std::pair(source[*latest].arrived, source[*latest].order))
        latest = id;
    }
    return latest;
  }

 private:
  LlumnixParams params_;
};

struct NoneParams {
  static constexpr auto fields() { return sim::FieldTable<NoneParams, 0>(); }
};

class NoMigration final : public Migration {
 public:
  explicit NoMigration(const NoneParams&) {}
  bool active() const override { return false; }
  std::vector<MigrationPair> pair(std::span<const LoadReport>) override { return {}; }
  std::optional<SeqId> victim(const BatchView&) override { return std::nullopt; }
};

}  // namespace

void add_llumnix_migration(MigrationRegistry& registry) {
  registry.add<LlumnixParams>(
      "llumnix", "Requests move from replicas with low freeness to those with high freeness (Llumnix, OSDI 2024).",
      [](const LlumnixParams& params) { return std::make_unique<LlumnixMigration>(params); });
}
void add_no_migration(MigrationRegistry& registry) {
  registry.add<NoneParams>("none", "Requests stay where they are.",
                           [](const NoneParams& params) { return std::make_unique<NoMigration>(params); });
}

}  // namespace orrery::policies
