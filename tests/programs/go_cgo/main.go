// C memory is passed from goroutine to goroutine, so blocks are freed by threads other than those that allocated them;
// locked threads end with their goroutine, so threads come and go as well.
package main

/*
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern void goCallback(uintptr_t);

static char *fill(size_t size, int byte) {
	char *block = malloc(size);
	if (block) memset(block, byte, size);
	return block;
}

static int same(const char *block, size_t size, int byte) {
	for (size_t i = 0; i < size; i++)
		if (block[i] != (char)byte) return 0;
	return 1;
}

static void call_back(uintptr_t number) {
	char *copy = malloc(64);
	memset(copy, 1, 64);
	goCallback(number);
	free(copy);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

type block struct {
	at   *C.char
	size int
	byte int
}

var callbacks atomic.Int64

//export goCallback
func goCallback(number C.uintptr_t) {
	text := C.CString(fmt.Sprint("callback ", number)) // C memory again, on the way back through Go
	C.free(unsafe.Pointer(text))
	callbacks.Add(1)
}

func main() {
	const goroutines, each = 8, 20000
	var blocks, texts atomic.Int64
	exchange := make(chan block, 256)
	var makers, takers sync.WaitGroup
	for g := 0; g < goroutines; g++ {
		makers.Add(1)
		go func(g int) {
			defer makers.Done()
			for i := 0; i < each; i++ {
				size := 1 + (i*37+g*911)%3000
				exchange <- block{C.fill(C.size_t(size), C.int(i&127)), size, i & 127}
				if i%2 == 0 {
					text := strings.Repeat("x", i%200)
					c := C.CString(text)
					if C.GoString(c) == text {
						texts.Add(1)
					}
					C.free(unsafe.Pointer(c))
					C.call_back(C.uintptr_t(i))
				}
			}
		}(g)
		takers.Add(1)
		go func() {
			defer takers.Done()
			for one := range exchange {
				if C.same(one.at, C.size_t(one.size), C.int(one.byte)) == 0 {
					fmt.Fprintln(os.Stderr, "a block of", one.size, "bytes is damaged")
					os.Exit(1)
				}
				C.free(unsafe.Pointer(one.at))
				blocks.Add(1)
			}
		}()
	}
	makers.Wait()
	close(exchange)
	takers.Wait()

	var threads sync.WaitGroup
	var ended atomic.Int64
	for t := 0; t < 200; t++ {
		threads.Add(1)
		go func() {
			defer threads.Done()
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			for i := 1; i < 100; i++ {
				C.free(unsafe.Pointer(C.fill(C.size_t(i*40), 1)))
			}
			ended.Add(1)
		}()
	}
	threads.Wait()
	fmt.Println("blocks", blocks.Load(), "strings", texts.Load(), "callbacks", callbacks.Load(), "threads", ended.Load())
}
