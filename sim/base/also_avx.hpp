// Inner loops compiled three times: for every x86-64, and for processors with AVX2 or AVX-512, whose vectors hold two
// and four times as many numbers.
//
// Which one runs is chosen when the program is loaded. The bits are the same: each element of a vector goes through the
// same operations in the same order, and no product is contracted with a sum (-ffp-contract=off). Only for loops over
// independent elements that a profile names.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__) || defined(__clang__)
#define ORRERY_ALSO_AVX  // sanitizers: the function that chooses runs before they are ready
#else
#define ORRERY_ALSO_AVX __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
