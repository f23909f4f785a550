#include "experiments/serving/cluster.hpp"

namespace orrery::experiments {

void Cluster::add(ReplicaParts parts) {
  parts.engine = &engine_;
  parts.metrics = &metrics_;
  parts.sink = this;
  parts.observer = observer_;
  parts.index = static_cast<std::int32_t>(replicas_.size());
  replicas_.push_back(std::make_unique<Replica>(std::move(parts)));
}

Request& Cluster::make_request() {
  Request& request = pool_.make();
  request.id = next_id_++;
  request.arrived = engine_.now();
  return request;
}

void Cluster::send(Request& request) {
  ++metrics_.arrived;
  replicas_.front()->submit(request);
  touched_.assign(1, 0);
}

void Cluster::flush() {
  for (const std::size_t i : touched_) replicas_[i]->wake();
  touched_.clear();
}

void Cluster::request_ended(Request& request, std::string_view status, std::optional<sim::Time> finished) {
  const RequestRecord record{.id = request.id,
                             .arrived = request.arrived,
                             .admitted = request.admitted,
                             .first_token = request.first_token,
                             .finished = finished,
                             .prompt_tokens = request.prompt_tokens,
                             .output_tokens = request.output_tokens,
                             .cached_tokens = request.cached_tokens,
                             .preemptions = request.preemptions,
                             .replica = request.replica,
                             .status = status};
  metrics_.request_ended(record, request.tbts);
  if (observer_ != nullptr) observer_->request_ended(record);
  load_.request_ended(request, status, finished);
  pool_.recycle(request);
}

void Cluster::finish() {
  for (const auto& replica : replicas_) replica->flush_unfinished();
  for (const auto& replica : replicas_) metrics_.cost.add(replica->cost());
}

}  // namespace orrery::experiments
