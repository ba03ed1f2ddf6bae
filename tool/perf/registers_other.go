//go:build !amd64

package perf

// registerMask is 0 because package unwind does not support this architecture. Stacks come from the kernel's
// frame-pointer unwinder.
const registerMask = 0

var registerNumbers []int
