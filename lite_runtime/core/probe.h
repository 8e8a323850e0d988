#pragma once

// Statically defined probes (USDT): places that bpftrace, perf and SystemTap can be told to look at in a running
// program. LITE_PROBE3(name, a, b, c) costs one `nop`, and a note in the file says where it is and where its arguments
// are found: `readelf -n` shows them, as of provider `lite`.
//
// The note is that of SystemTap's probes, version 3: place, base and semaphore (none), then three strings.

#if defined(__linux__) && defined(__LP64__) && (defined(__x86_64__) || defined(__aarch64__)) && !defined(LITE_NO_PROBES)

#define LITE_PROBE3(name, a, b, c)                                            \
  asm volatile(                                                               \
      "990: nop\n"                                                            \
      ".pushsection .note.stapsdt,\"\",\"note\"\n"                            \
      ".balign 4\n"                                                           \
      ".4byte 992f-991f, 994f-993f, 3\n"                                      \
      "991: .asciz \"stapsdt\"\n"                                             \
      "992: .balign 4\n"                                                      \
      "993: .8byte 990b, _.stapsdt.base, 0\n"                                 \
      ".asciz \"lite\"\n"                                                     \
      ".asciz \"" name                                                        \
      "\"\n"                                                                  \
      ".asciz \"8@%0 8@%1 8@%2\"\n"                                           \
      "994: .balign 4\n"                                                      \
      ".popsection\n"                                                         \
      ".ifndef _.stapsdt.base\n"                                              \
      ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
      ".weak _.stapsdt.base\n"                                                \
      ".hidden _.stapsdt.base\n"                                              \
      "_.stapsdt.base: .space 1\n"                                            \
      ".size _.stapsdt.base, 1\n"                                             \
      ".popsection\n"                                                         \
      ".endif\n" ::"nor"(::lite::probe_word(a)),                              \
      "nor"(::lite::probe_word(b)), "nor"(::lite::probe_word(c)))

#include <cstdint>

namespace lite {

// An argument of a probe: a number or an address, in 64 bits.
template <typename T>
uint64_t probe_word(T* address) {
  return reinterpret_cast<uintptr_t>(address);
}
inline uint64_t probe_word(uint64_t number) { return number; }

}  // namespace lite

#else

#define LITE_PROBE3(name, a, b, c) static_cast<void>(0)

#endif
