// Loops over bytes that the compiler does not vectorise by itself, for 8-bit contractions. Plain
// functions in a file of vector code (*_avx2.cc): call only where activeIsa() is a level.
#pragma once
#include <cstdint>

namespace rlx::cpu {

// to[i] = from[i] ^ flip for i in [0, count). Returns the sum of what was written.
uint32_t copyBytes(const uint8_t* from, uint8_t flip, int64_t count, uint8_t* to);

// to[i] = from[i] for i in [0, count), from int8_t where `isSigned`.
void widenBytes(const uint8_t* from, bool isSigned, int64_t count, int16_t* to);

// to[j * 4 + t] = from[t * fromRow + j] ^ flip for t in [0, 4), j in [0, columns).
void interleaveRows(const uint8_t* from, int64_t fromRow, uint8_t flip, int64_t columns,
                    uint8_t* to);

// to[j * 4 + t] = from[j * fromColumn + t] ^ flip for t in [0, 4), j in [0, columns).
void copyWords(const uint8_t* from, int64_t fromColumn, uint8_t flip, int64_t columns, uint8_t* to);

}  // namespace rlx::cpu
