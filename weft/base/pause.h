// What a thread does between two looks at memory that another thread will write.
#pragma once

namespace weft {

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace weft
