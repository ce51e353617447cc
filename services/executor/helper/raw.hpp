// System calls that leave errno alone: a child that still shares the helper's memory shares its errno too.
// Each answers what the kernel does: a value, or a negative error number.
#pragma once

#include <stddef.h>
#include <sys/syscall.h>

namespace nodus::helper {

#ifndef __x86_64__
#error "The helper's child speaks to the kernel of x86_64 only."
#endif

inline long raw_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0) {
  long result;
  register long fourth asm("r10") = d;
  register long fifth asm("r8") = e;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
               : "rcx", "r11", "memory");
  return result;
}

template <class T>
long raw_pointer(T* pointer) {
  return reinterpret_cast<long>(pointer);
}

}  // namespace nodus::helper
