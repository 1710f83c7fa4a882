// Products of sixteen outputs with up to sixteen rows on the matrix unit (AMX) of Intel processors, in bfloat16 with
// float32 sums. The weights keep their layout; x is packed once.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace om {

constexpr int64_t kAmxOutputs = 16;  // outputs of one block, and the maximum of rows
constexpr int64_t kAmxDepth = 32;    // k must be a multiple of this

// Packs x [rows, k] as pairs of k with all sixteen rows in each pair, padded with zeros. Size of to: 16 k values.
inline void amx_pack(const c10::BFloat16 *x, int64_t rows, int64_t k, c10::BFloat16 *to) {
  std::memset(static_cast<void *>(to), 0, 16 * k * sizeof *to);
  for (int64_t i = 0; i < k; i += 2)
    for (int64_t r = 0; r < rows; r++) std::memcpy(static_cast<void *>(to + i * 16 + r * 2), x + r * k + i, 4);
}

#if defined(__x86_64__) && defined(__linux__)
#define OM_TARGET_AMX __attribute__((target("amx-tile,amx-bf16")))

// amx_usable requests permission from the kernel to use the unit's registers, once per process.
inline bool amx_usable() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// An AmxTiles object gives its thread three tiles of 16 rows of 64 bytes until it is destroyed.
class AmxTiles {
 public:
  OM_TARGET_AMX AmxTiles() {
    // Byte 0: palette 1. Bytes 16, 18, 20: bytes per row of each tile. Bytes 48 to 50: rows of each tile.
    alignas(64) static const uint8_t config[64] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 64, 0, 64, 0,
                                                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                   0, 0, 0, 0, 16, 16, 16};
    _tile_loadconfig(config);
  }
  OM_TARGET_AMX ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles &) = delete;
  AmxTiles &operator=(const AmxTiles &) = delete;
};

// y[o, r] for sixteen outputs of w [., k] and packed x. The thread must have an
// AmxTiles. The weights of the next sixteen outputs are prefetched.
OM_TARGET_AMX inline void amx_block(const c10::BFloat16 *packed, const c10::BFloat16 *w, int64_t k, float *y) {
  _tile_zero(0);
  for (int64_t i = 0; i < k; i += kAmxDepth) {
    for (int64_t o = 0; o < kAmxOutputs; o++) __builtin_prefetch(w + (kAmxOutputs + o) * k + i, 0, 2);
    _tile_loadd(1, w + i, k * 2);
    _tile_loadd(2, packed + i * 16, 64);
    _tile_dpbf16ps(0, 1, 2);
  }
  _tile_stored(0, y, 64);
}
#else
inline bool amx_usable() { return false; }
struct AmxTiles {
  AmxTiles() {}
};
inline void amx_block(const c10::BFloat16 *, const c10::BFloat16 *, int64_t, float *) {}
#endif

}  // namespace om
