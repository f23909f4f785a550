// Written by sim/base/derive_math_tables.py from the definitions; do not edit.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/double_double.hpp"

namespace orrery::sim::tables {

inline constexpr double kLn2High = 0x1.62e42fefa2000p-1;  ///< first 40 bits of ln 2: times an exponent it is exact
inline constexpr double kLn2Low = 0x1.9ef35793c7673p-41;  ///< the rest
inline constexpr Wide kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};                 ///< ln 2
inline constexpr Wide kLog2E{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};               ///< 1 / ln 2
inline constexpr Wide kLog10E{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};              ///< 1 / ln 10
inline constexpr Wide kThird{0x1.5555555555555p-2, 0x1.5555555555555p-56};               ///< 1/3
inline constexpr Wide kFifth{0x1.999999999999ap-3, -0x1.999999999999ap-57};              ///< 1/5
inline constexpr double kHalfPi1 = 0x1.921fb54400000p+0;                                 ///< first 33 bits of pi/2
inline constexpr double kHalfPi2 = 0x1.0b4611a600000p-34;                                ///< the next 33
inline constexpr double kHalfPi3 = 0x1.3198a2e037073p-69;                                ///< the rest
inline constexpr Wide kHalfPi{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};              ///< pi/2
inline constexpr Wide kPi{0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};                  ///< pi
inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;                               ///< 2/pi
inline constexpr double kTwoOverRootPiLess1 = 0x1.06eba8214db69p-3;                      ///< 2/sqrt(pi) - 1
inline constexpr Wide kHalfLog2PiLessHalf{0x1.acfe390c97d69p-2, 0x1.3494bc9001442p-56};  ///< ln(2 pi)/2 - 1/2
inline constexpr double kLogPi = 0x1.250d048e7a1bdp+0;                                   ///< ln pi
/// The bits of 2/pi behind the point, 64 a word.
inline constexpr std::uint64_t kTwoOverPiBits[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
/// atan(i/8), i = 0 … 8.
inline constexpr Wide kAtan[] = {{0x0.0p+0, 0x0.0p+0},
                                 {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                                 {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                                 {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                                 {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                                 {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                                 {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                                 {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                                 {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};
/// Taylor coefficients of erf(x)/x in x^2, from the second on.
inline constexpr std::array<double, 14> kErf{-0x1.812746b0379e7p-2,  0x1.ce2f21a042be2p-4,   -0x1.b82ce31288b51p-6,
                                             0x1.565bcd0e6a53fp-8,   -0x1.c02db40040b86p-11, 0x1.f9a326f9b89b7p-14,
                                             -0x1.f4d25c3e0c2ebp-17, 0x1.b9e6c9dc651a3p-20,  -0x1.5f742ec43e71ap-23,
                                             0x1.fcc5720624c1cp-27,  -0x1.51d7181c5d36dp-30, 0x1.9e6ad5e55a730p-34,
                                             -0x1.d8453cb0c46eap-38, 0x1.f683ae4a97007p-42};
/// B(2k) / (2k (2k-1)), k = 1 … 12: the Stirling series of ln Gamma.
inline constexpr std::array<double, 12> kStirling{0x1.5555555555555p-4,   -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11,
                                                  -0x1.3813813813814p-11, 0x1.b951e2b18ff23p-11, -0x1.f6ab0d9993c7dp-10,
                                                  0x1.a41a41a41a41ap-8,   -0x1.e4286cb0f5398p-6, 0x1.6fe96381e0680p-3,
                                                  -0x1.6476701181f3ap+0,  0x1.ace44322ce006p+3,  -0x1.39b2525cccc1bp+7};
// Polynomials in t in [-1, 1], which runs over the interval, from Chebyshev series: e^(x^2) erfc(x).
/// x in [0.5, 1.5].
inline constexpr std::array<double, 18> kErfcxA{0x1.b5d8780f956b2p-2,   -0x1.17c4e3f17c050p-3,  0x1.3c27283c32cbdp-5,
                                                -0x1.44837f8906fc2p-7,  0x1.33cad0ef5f60dp-9,   -0x1.10fcf1b55a125p-11,
                                                0x1.c8cb958b88ad3p-14,  -0x1.6af2654d3cbf4p-16, 0x1.135263367e3f4p-18,
                                                -0x1.908223d42a197p-21, 0x1.184fa620c3bd7p-23,  -0x1.7ab1a9162814ep-26,
                                                0x1.ef152386ec268p-29,  -0x1.39cca4cdd03fbp-31, 0x1.80f256304e28dp-34,
                                                -0x1.cd675f94b434cp-37, 0x1.28078a7a4c6cep-39,  -0x1.51de7004f1433p-42};
/// x in [1.5, 3.0].
inline constexpr std::array<double, 19> kErfcxB{
    0x1.d94446d627932p-3,  -0x1.0fd49e0c6970dp-4,  0x1.26d813efea5cbp-6,  -0x1.302f5a92d9fa6p-8,
    0x1.2c2c8807fec16p-10, -0x1.1c98a394b8153p-12, 0x1.042e2809846f0p-14, -0x1.cc15d35ffea80p-17,
    0x1.8a6adf5b242cap-19, -0x1.488b5a8b23bbbp-21, 0x1.0a6aab3e1f31ep-23, -0x1.a54cfa6e4e330p-26,
    0x1.454797e5e1258p-28, -0x1.eb4581c53c039p-31, 0x1.6b03d3b4263d1p-33, -0x1.04458245f9720p-35,
    0x1.71797962c3ee4p-38, -0x1.2a735c3dacd84p-40, 0x1.99b19349636e6p-43};
/// x in [3.0, 6.0].
inline constexpr std::array<double, 22> kErfcxC{
    0x1.f5b2a049cf4c6p-4,  -0x1.3faf08fef539fp-5,  0x1.8f19524cb6422p-7,  -0x1.e8a10e822cc2dp-9,
    0x1.25a4c2c3ba73ep-10, -0x1.5ac764343525fp-12, 0x1.92b69b569cd68p-14, -0x1.cc390f3109af7p-16,
    0x1.02f527d0ec816p-17, -0x1.1f254e64dd05fp-19, 0x1.39e87275be8fap-21, -0x1.527ef48927ab2p-23,
    0x1.683846f67cffdp-25, -0x1.7a77fbae9dce6p-27, 0x1.88a58b4905b21p-29, -0x1.9299ce3c61482p-31,
    0x1.9a2661d9c5fd5p-33, -0x1.9b40f0d51a489p-35, 0x1.7eb4a7c8b5502p-37, -0x1.75f184a937829p-39,
    0x1.0993894d53053p-40, -0x1.0137912b1ef35p-42};
/// Times x, in u = 1/x^2 on [1/729, 1/36].
inline constexpr std::array<double, 12> kErfcxD{0x1.1ecdee9abc936p-1,   -0x1.d3ed0dcfa9c7ep-9,  0x1.16acc90a731f1p-14,
                                                -0x1.0d879c3d4626bp-19, 0x1.63f331ba5440cp-24,  -0x1.26fd59b20aaa7p-28,
                                                0x1.23e833a7a3b0ap-32,  -0x1.4dc107b0b5acfp-36, 0x1.ae9d286292dcdp-40,
                                                -0x1.3441e8c6ce8d3p-43, 0x1.f5b3a6eb2f498p-47,  -0x1.ade2e7675ee93p-50};
// The same for ln Gamma(x) / ((x-1)(x-2)).
/// x in [0.5, 1.5].
inline constexpr std::array<double, 30> kLgammaA{
    0x1.2788cfc6fb619p-1,  -0x1.f6465978d46e9p-4,  0x1.3e54520481eb8p-5,   -0x1.d7a3e6a8f22fep-7,
    0x1.79cf9c4c5bdd6p-8,  -0x1.3cb1f9d3c571cp-9,  0x1.115549e5354dbp-10,  -0x1.e18246ed1ac0dp-12,
    0x1.ae8a9a53b32fcp-13, -0x1.85792e13e7682p-14, 0x1.639f29b68d440p-15,  -0x1.473655bd25267p-16,
    0x1.2f0626c398a1ap-17, -0x1.1a2b771eb1f97p-18, 0x1.07e648e84e5c7p-19,  -0x1.efc0f7a9fe829p-21,
    0x1.d5cc5449c3594p-22, -0x1.bd76134e2f9cap-23, 0x1.930c5142860b8p-24,  -0x1.78d13df9cca8ep-25,
    0x1.de23908521a35p-26, -0x1.e7102be6b14bdp-27, -0x1.8054719b93c4fp-31, 0x1.1aebd6069181fp-30,
    0x1.61ac9e62650dfp-28, -0x1.85f2cd732c45fp-29, -0x1.8d21415f52558p-30, 0x1.bc47364cb199dp-31,
    0x1.e6cc56b5c206dp-32, -0x1.f88c9d03ae1f6p-33};
/// x in [1.5, 3].
inline constexpr std::array<double, 23> kLgammaB{
    0x1.992dfc9539d9bp-2,  -0x1.07d3725b066f1p-4,  0x1.d1bf0ebc84adep-7,  -0x1.d406d784a0062p-9,
    0x1.f87c2efbebff1p-11, -0x1.1be9fa46ce280p-12, 0x1.48f2d01f41311p-14, -0x1.85051a4131515p-16,
    0x1.d3161b1272344p-18, -0x1.1bae14e1960b3p-19, 0x1.5bbdc4b406992p-21, -0x1.ad6b21919caf1p-23,
    0x1.0ac18ba794b3ap-24, -0x1.4d2f555a40bd2p-26, 0x1.a1e9e6d389e5bp-28, -0x1.0616a269d7726p-29,
    0x1.4ab455571197dp-31, -0x1.b444b54a1a5dbp-33, 0x1.16fd00390cc71p-34, -0x1.01b3f2b1785c8p-36,
    0x1.3b8c1abae7324p-38, -0x1.00b8b4f6fe183p-38, 0x1.52477e509cb70p-40};

}  // namespace orrery::sim::tables
