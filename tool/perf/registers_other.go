//go:build !amd64

package perf

// registerMask: none, where package unwind knows no registers. Stacks are the kernel's walk by frame pointers there.
const registerMask = 0

var registerNumbers []int
