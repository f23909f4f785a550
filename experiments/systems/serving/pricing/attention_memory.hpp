// Iterations where attention of decodes runs in memory beside the device (hw/pim/attention_pim.hpp), all else on it.
//
//   serial       one after the other
//   interleaved  decodes alone are cut into two halves that take turns: attention of one runs beside the products of
//                the other (NeuPIMs; hw/pim/decode_overlap.hpp). Each half reads all weights.
//   fastest      whichever of them is, batch by batch
// Iterations with prompts are serial. Where the memory hangs on a link, keys and values of prompt chunks go there, and
// those of what a chunk continues come back, beside the iteration: it lasts no shorter than that.
// Left out: energy of these copies; layers are taken as alike in an interleaved iteration.
#pragma once

#include <cstdint>
#include <memory>

#include "experiments/systems/serving/pricing/iteration_model.hpp"
#include "hw/pim/attention_pim.hpp"
#include "sim/base/enum_names.hpp"

namespace orrery::experiments {

enum class AttentionSchedule : std::uint8_t { serial, interleaved, fastest };
constexpr auto enum_names(AttentionSchedule) {
  using enum AttentionSchedule;
  return sim::names<AttentionSchedule>({{"serial", serial}, {"interleaved", interleaved}, {"fastest", fastest}});
}

class AttentionMemory final : public IterationModel {
 public:
  /// `serial` prices `ranks` devices that have their attention of decodes done in this memory
  /// (hw::with_attention_memory). A token takes `kv_bytes` of it a layer.
  AttentionMemory(std::unique_ptr<IterationModel> serial, hw::AttentionPimParams memory, AttentionSchedule schedule,
                  std::int64_t kv_bytes, std::int64_t ranks)
      : serial_(std::move(serial)),
        memory_(std::move(memory)),
        schedule_(schedule),
        kv_bytes_(kv_bytes),
        ranks_(ranks) {}
  void cost(const BatchShape& shape, IterationCost& out) override;
  std::int64_t switch_ps(std::int32_t from, std::int32_t to) const override { return serial_->switch_ps(from, to); }

 private:
  bool can_interleave(const BatchShape& shape) const;
  IterationCost of(const BatchShape& shape);
  IterationCost interleaved(const BatchShape& shape);
  std::int64_t copies_ps(const BatchShape& shape) const;

  std::unique_ptr<IterationModel> serial_;
  hw::AttentionPimParams memory_;
  AttentionSchedule schedule_;
  std::int64_t kv_bytes_, ranks_;
};

}  // namespace orrery::experiments
