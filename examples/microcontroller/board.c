/* What a program needs on a bare Cortex-M: vectors, the floating-point unit, and a way to print.
   Printing and the end of the program go to the debugger (semihosting), which is QEMU here. */
#include <stdint.h>
#include <string.h>

extern uint32_t data_begin, data_end, data_load, bss_begin, bss_end, stack_top;
int main(void);

static void debugger(int what, const void *argument) {
  register int r0 __asm__("r0") = what;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

int _write(int file, const char *text, int length) {
  char piece[64];
  int i, n;
  (void)file;
  for (i = 0; i < length; i += n) {
    n = length - i < 63 ? length - i : 63;
    memcpy(piece, text + i, (size_t)n);
    piece[n] = 0;
    debugger(4, piece); /* SYS_WRITE0 */
  }
  return length;
}

static void leave(int status) {
  uint32_t block[2];
  block[0] = 0x20026; /* the application has exited */
  block[1] = (uint32_t)status;
  debugger(0x20, block); /* SYS_EXIT_EXTENDED */
  for (;;) {
  }
}

void start(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: full access to the FPU */
  __asm__ volatile("dsb\n isb");
  memcpy(&data_begin, &data_load, (size_t)((char *)&data_end - (char *)&data_begin));
  memset(&bss_begin, 0, (size_t)((char *)&bss_end - (char *)&bss_begin));
  leave(main());
}

static void fault(void) { leave(100); }

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (const void *)start, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault,
};
