package report

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Histogram counts values by powers of two.
type Histogram struct {
	counts [64]int64 // by the number of bits of the value
}

// Add counts one value. Negative values count as 0.
func (h *Histogram) Add(value int64) {
	if value < 0 {
		value = 0
	}
	h.counts[bits.Len64(uint64(value))]++
}

// Bucket is one row of a histogram, for values from Low (inclusive) to High (exclusive).
type Bucket struct {
	Low   int64 `json:"low"`
	High  int64 `json:"high"`
	Count int64 `json:"count"`
}

// Buckets lists the rows from the first to the last nonempty one.
func (h *Histogram) Buckets() []Bucket {
	var list []Bucket
	last := 0
	for i, count := range h.counts {
		if count != 0 {
			last = len(list) + 1
		}
		if count == 0 && len(list) == 0 {
			continue
		}
		low, high := int64(0), int64(math.MaxInt64)
		if i > 0 {
			low = 1 << (i - 1)
		}
		if i < 63 {
			high = 1 << i
		}
		list = append(list, Bucket{low, high, count})
	}
	return list[:last]
}

// Text formats the histogram in the style of bpftrace, one row per line. edge formats a bound.
func (h *Histogram) Text(edge func(int64) string) string {
	const width = 52
	var b strings.Builder
	buckets := h.Buckets()
	maximum := int64(1)
	for _, bucket := range buckets {
		maximum = max(maximum, bucket.Count)
	}
	for _, bucket := range buckets {
		stars := strings.Repeat("@", int((bucket.Count*width+maximum-1)/maximum))
		fmt.Fprintf(&b, "%-20s %10s |%-*s|\n", "["+edge(bucket.Low)+", "+edge(bucket.High)+")", Count(bucket.Count), width, stars)
	}
	return b.String()
}

// BinaryEdge formats a number of bytes in short form: "4K", "2M".
func BinaryEdge(n int64) string {
	for _, unit := range []string{"", "K", "M", "G", "T"} {
		if n < 1024 || n%1024 != 0 {
			return fmt.Sprintf("%d%s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%dP", n)
}

// NanosecondEdge formats a power of two of nanoseconds in short form: "512ns", "4us", "2ms".
func NanosecondEdge(n int64) string {
	for _, unit := range []string{"ns", "us", "ms"} {
		if n < 1024 {
			return fmt.Sprintf("%d%s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%ds", n)
}
