// Inner loops compiled twice: for every x86-64, and for processors with AVX2, whose vectors hold twice as many numbers.
//
// Which one runs is chosen when the program is loaded. The bits are the same: each element of a vector goes through the
// same operations in the same order, and no product is contracted with a sum (-ffp-contract=off; AVX2 does not bring
// FMA). Only for loops over independent elements that a profile names: a compiler may still not reorder sums.
#pragma once

// Sanitizers instrument the function that chooses, which runs before they are ready.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ORRERY_ALSO_AVX2
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ORRERY_ALSO_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define ORRERY_ALSO_AVX2
#endif
