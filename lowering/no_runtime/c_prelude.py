"""The part of a generated C file that does not depend on the program."""

from __future__ import annotations

PRELUDE = r"""
/* Dispatch functions and their arguments: version 0.6 of IREE's executable library interface. */
struct xpr_environment {
  const uint32_t *constants;
  void *import_thunk;
  const void *import_functions;
  const void *import_contexts;
  uint64_t processor[8];
};
struct xpr_dispatch {
  uint32_t size_x, size_y;
  uint16_t size_z, constant_count;
  uint32_t count_x, count_y;
  uint16_t count_z;
  uint8_t concurrency, binding_count;
  const uint32_t *constants;
  void *const *bindings;
  const size_t *lengths;
};
struct xpr_workgroup {
  uint32_t x, y;
  uint16_t z, reserved;
  uint32_t processor;
  void *local_memory;
  uint32_t local_memory_bytes;
};
typedef int (*xpr_kernel)(const struct xpr_environment *, const struct xpr_dispatch *,
                          const struct xpr_workgroup *);
struct xpr_library_header {
  uint32_t version;
  const char *name;
  uint32_t features, sanitizer;
};
struct xpr_library {
  const struct xpr_library_header *header;
  uint32_t import_count;
  const void *imports;
  uint32_t kernel_count;
  const xpr_kernel *kernels;
};
#define XPR_LIBRARY_VERSION 6u
XPR_ASSERT(dispatch, sizeof(struct xpr_dispatch) == 24 + 3 * sizeof(void *));
XPR_ASSERT(pointers, sizeof(void *) == sizeof(size_t));

#define XPR_BYTES(constant) ((uint8_t *)(uintptr_t)(constant))

/* Numbers below the normal range count as zero, as in IREE's runtime. */
#if defined(__SSE__) || defined(__x86_64__)
#include <xmmintrin.h>
typedef unsigned xpr_float_mode;
static xpr_float_mode xpr_flush(void) {
  xpr_float_mode mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040u);
  return mode;
}
static void xpr_restore(xpr_float_mode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
typedef uint64_t xpr_float_mode;
static xpr_float_mode xpr_flush(void) {
  xpr_float_mode mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  __asm__ volatile("msr fpcr, %0" : : "r"(mode | UINT64_C(0x1080000)));
  return mode;
}
static void xpr_restore(xpr_float_mode mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
#elif defined(__arm__) && defined(__ARM_FP)
typedef uint32_t xpr_float_mode;
static xpr_float_mode xpr_flush(void) {
  xpr_float_mode mode;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(mode));
  __asm__ volatile("vmsr fpscr, %0" : : "r"(mode | 0x1000000u));
  return mode;
}
static void xpr_restore(xpr_float_mode mode) {
  __asm__ volatile("vmsr fpscr, %0" : : "r"(mode));
}
#else
typedef int xpr_float_mode;
static xpr_float_mode xpr_flush(void) { return 0; }
static void xpr_restore(xpr_float_mode mode) { (void)mode; }
#endif

static int xpr_misaligned(const void *pointer) {
  return ((uintptr_t)pointer & (XPR_ALIGNMENT - 1)) != 0;
}
"""

# Each is printed where the programs use it: an unused static function is a warning.
HELPERS: dict[str, str] = {
    "xpr_run": r"""
static const struct xpr_environment xpr_no_environment = {0, 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};
static int xpr_run(xpr_kernel kernel, uint32_t x, uint32_t y, uint32_t z,
                   const uint32_t *constants, uint16_t constant_count, void *const *bindings,
                   const size_t *lengths, uint8_t binding_count) {
  struct xpr_dispatch dispatch;
  struct xpr_workgroup group;
  uint32_t i, j, k;
  memset(&dispatch, 0, sizeof dispatch);
  memset(&group, 0, sizeof group);
  dispatch.size_x = dispatch.size_y = dispatch.size_z = 1;
  dispatch.constant_count = constant_count;
  dispatch.count_x = x;
  dispatch.count_y = y;
  dispatch.count_z = (uint16_t)z;
  dispatch.concurrency = 1;
  dispatch.binding_count = binding_count;
  dispatch.constants = constants;
  dispatch.bindings = bindings;
  dispatch.lengths = lengths;
  for (k = 0; k < z; ++k) {
    for (j = 0; j < y; ++j) {
      for (i = 0; i < x; ++i) {
        group.x = i;
        group.y = j;
        group.z = (uint16_t)k;
        if (kernel(&xpr_no_environment, &dispatch, &group)) return 1;
      }
    }
  }
  return 0;
}
""",
    "xpr_fill": r"""
static void xpr_fill(uint8_t *target, size_t bytes, uint64_t pattern, size_t pattern_bytes) {
  size_t i;
  for (i = 0; i < bytes; ++i) target[i] = (uint8_t)(pattern >> (8 * (i % pattern_bytes)));
}
""",
    "xpr_inside": r"""
static int xpr_inside(const uint8_t *pointer, const uint8_t *begin, size_t bytes) {
  return (uintptr_t)pointer >= (uintptr_t)begin && (uintptr_t)pointer < (uintptr_t)begin + bytes;
}
""",
    **{
        f"xpr_load{bits}": f"""
static uint32_t xpr_load{bits}(const uint8_t *place) {{
  uint{bits}_t value;
  memcpy(&value, place, sizeof value);
  return value;
}}
"""
        for bits in (8, 16, 32)
    },
    **{
        f"xpr_{name}{bits}": f"""
static uint{bits}_t xpr_{name}{bits}(uint{bits}_t a, uint{bits}_t b) {{
  if (b == (uint{bits}_t)-1) return {overflow};
  return (uint{bits}_t)((int{bits}_t)a {sign} (int{bits}_t)b);
}}
"""
        for bits in (32, 64)
        for name, sign, overflow in (("div", "/", "0 - a"), ("rem", "%", "0"))
    },
}
