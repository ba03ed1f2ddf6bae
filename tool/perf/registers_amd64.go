package perf

// registerMask requests ax, bx, cx, dx, si, di, bp, sp, ip and r8 to r15. They arrive in the order of their bits
// (asm/perf_regs.h).
const registerMask = 0xff01ff

// registerNumbers are their DWARF numbers.
var registerNumbers = []int{0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15}
