package cli

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"seemalloc/tool/report"
	"seemalloc/tool/symbolize"
)

// placeholder matches the name of a function without a symbol: redis-server+0x3f0.
var placeholder = regexp.MustCompile(`^(.+)\+0x[0-9a-f]+$`)

// writeNoSymbols names the programs and libraries whose functions own memory but have no symbols, and where symbols come
// from. Small shares are not worth a line.
func (s *viewedProfile) writeNoSymbols(b *strings.Builder, index int) {
	const leastPercent = 1
	sums, total := map[string]int64{}, int64(0)
	for _, sample := range s.profile.Sample {
		value := max(sample.Value[index], -sample.Value[index])
		total += value
		if len(sample.Location) > 0 && sample.Location[0].Mapping != nil && placeholder.MatchString(report.Frames(sample)[0].Name) {
			sums[sample.Location[0].Mapping.File] += value
		}
	}
	var files []string
	for file, sum := range sums {
		if sum*100 >= total*leastPercent {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	for _, file := range files {
		if from := symbolize.SymbolsFor(file); from != "" {
			fmt.Fprintf(b, "No symbols of %s, %s of the total: %s has them\n", filepath.Base(file), report.Percent(float64(sums[file]), float64(total)), from)
		}
	}
}
