package symbolize

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Kernel finds the symbols of addresses in the running kernel.
type Kernel struct {
	starts []uint64
	names  []string
}

// ErrHidden means that the kernel lists its symbols without addresses.
var ErrHidden = errors.New("the kernel hides its addresses (kernel.kptr_restrict)")

// ReadKernel reads the kernel's symbol list, /proc/kallsyms.
func ReadKernel() (*Kernel, error) {
	data, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	return parseKernel(string(data))
}

// parseKernel parses lines such as "ffffffff81000000 T _stext [module]".
func parseKernel(text string) (*Kernel, error) {
	type symbol struct {
		start uint64
		name  string
	}
	var symbols []symbol
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.ContainsAny(fields[1], "tTwW") {
			continue
		}
		start, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil || start == 0 {
			continue
		}
		symbols = append(symbols, symbol{start, fields[2]})
	}
	if len(symbols) == 0 {
		return nil, ErrHidden
	}
	slices.SortStableFunc(symbols, func(a, b symbol) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	k := &Kernel{}
	for _, s := range symbols {
		k.starts = append(k.starts, s.start)
		k.names = append(k.names, s.name)
	}
	return k, nil
}

// Name returns the function that contains the address, or "" if no symbol lies below it.
func (k *Kernel) Name(address uint64) string {
	if k == nil {
		return ""
	}
	// If several symbols have the same address, the last one is usually the function. The others are markers such as
	// _stext.
	i, _ := slices.BinarySearch(k.starts, address+1)
	if i == 0 {
		return ""
	}
	return k.names[i-1]
}
