// Package report formats profiles and statistics as text and JSON.
package report

import (
	"fmt"
	"strconv"
	"strings"
)

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}

// Bytes formats a number of bytes with at most four significant digits: "512 B", "1.25 KiB", "17.3 GiB".
func Bytes(n float64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	unit := 0
	for n >= 1023.95 && unit < len(units)-1 {
		n /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%s%.0f B", sign, n)
	}
	digits := 2
	if n >= 100 {
		digits = 1
	}
	return sign + strconv.FormatFloat(n, 'f', digits, 64) + " " + units[unit]
}

// Amount formats a value of a profile in its unit: bytes, time, or a count.
func Amount(v int64, unit string) string {
	switch unit {
	case "bytes":
		return Bytes(float64(v))
	case "nanoseconds":
		if v < 0 {
			return "-" + FormatNanos(-v)
		}
		return FormatNanos(v)
	}
	return Count(v)
}

// Count formats a number with thousands separators: "1,234,567".
func Count(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// Percent formats part/whole: "12.34%", or "0%" if whole is 0.
func Percent(part, total float64) string {
	if total == 0 || part == 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*part/total, 'f', 2, 64) + "%"
}
