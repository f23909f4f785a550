// FLOPs and compulsory bytes by shape: what work_of() adds up. `element` is the bytes of an element; formulas in
// docs/explain/kernels.md.
#pragma once

#include "hw/base/kernel.hpp"

namespace orrery::hw {

/// `weight`: bytes of a weight; 0: as `element`.
Work shape_work(const Gemm& shape, double element, double weight = 0);
Work shape_work(const GroupedGemm& shape, double element, double weight = 0);
Work shape_work(const Sparse& shape, double element);
Work shape_work(const Fft& shape, double element);
Work shape_work(const Conv& shape, double element);
Work shape_work(const Fused& shape, double element);

}  // namespace orrery::hw
