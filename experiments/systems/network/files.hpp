// The files of a network run: jobs.csv and flows.csv as it goes, links.csv at its end, timeline.pftrace in between.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/base/text_file.hpp"
#include "experiments/systems/network/load_samples.hpp"
#include "experiments/systems/network/metrics.hpp"
#include "hw/network/topology_query.hpp"
#include "sim/timeline/timeline.hpp"

namespace orrery::experiments::network {

class NetworkFiles final : public RunObserver {
 public:
  /// Creates the files in `folder`. The config must outlive them.
  NetworkFiles(const std::filesystem::path& folder, const NetworkConfig& config);
  ~NetworkFiles() override;

  void repetition_ended(const RepetitionRecord& record) override;
  void flow_ended(const FlowRecord& record) override;
  void loads_change(const sim::FlowNetwork& flows) override;
  /// Writes what is known at the end only, and closes all.
  void finish(const NetworkResult& result);
  bool timeline_truncated() const { return truncated_; }
  /// What there is to say if it is full; after finish().
  const std::optional<std::string>& timeline_full() const { return timeline_full_; }
  /// False where the timeline was to show loads and the network is too large for that.
  bool loads_sampled() const { return loads_.enabled(); }

 private:
  void draw_repetition(const RepetitionRecord& record);
  bool draw(sim::TrackId track, sim::Time from, sim::Time to, const std::string& name, std::int64_t repetition);
  sim::TrackId track(std::size_t job, std::size_t row);
  void write_links(const NetworkResult& result);
  void draw_loads(const NetworkResult& result);

  const NetworkConfig& config_;
  sim::TickScale scale_;
  hw::TopologyNames names_;
  BufferedFile jobs_, flows_, links_;
  sim::TimelineOptions options_;
  std::optional<std::string> timeline_full_;
  std::unique_ptr<sim::TimelineWriter> timeline_;                     // null: none is wanted
  std::vector<sim::TrackId> groups_;                                  // of jobs
  std::map<std::pair<std::size_t, std::size_t>, sim::TrackId> rows_;  // repetitions of a job (0), then its ranks
  LoadSamples loads_;
  std::int64_t drawn_ = 0;
  bool truncated_ = false;
};

/// Share of a link's bandwidth that was used; 0 where nothing could be carried.
double utilisation(const hw::NetworkLink& link, double carried_bytes, double simulated_s);

}  // namespace orrery::experiments::network
