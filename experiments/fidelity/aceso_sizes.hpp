// Sizes of the tensors behind `collectives/aceso.csv`.
//
// Its column data_size_MB is cut to whole MiB. The tensors are those of the same artefact's operator profile
// (training/aceso_op_profile.csv: activations and outputs of GPT layers in fp16, MiB to three decimals), each whole
// number measured at the first tensor that has it, in the order of models from small to large, then micro-batch,
// parallel degree, partition, operator (microsoft/SuperScaler, profiler/comm_profiler.py). The fraction decides whether
// the ranks' parts begin at multiples of 16 bytes: 44.004 MiB of fp16 do not, 44 MiB do.
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery::experiments {

/// Bytes of the fp16 tensor that was measured as `mebibytes` on `cluster`.
std::int64_t aceso_tensor_bytes(std::string_view cluster, std::int64_t mebibytes);

}  // namespace orrery::experiments
