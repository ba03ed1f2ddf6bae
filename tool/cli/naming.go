package cli

import (
	"os"
	"sync"

	"github.com/spf13/cobra"

	"seemalloc/tool/symbolize"
)

// symbolFlags adds the flags of commands that symbolize addresses.
func (a *app) symbolFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&a.debugDirs, "debug-dir", nil, "additional folder with programs and debug information (may be repeated)")
	c.Flags().StringArrayVar(&a.perfMaps, "perf-map", nil, "file with symbols of code generated at run time, in the format of perf-PID.map (may be repeated)")
}

// setUpNames configures the symbolizer for this run of the tool. Each of its messages is printed once.
func (a *app) setUpNames() error {
	for _, dir := range a.debugDirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return usageError("--debug-dir %s: expected a folder", dir)
		}
	}
	for _, path := range a.perfMaps {
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return usageError("--perf-map %s: expected a file with lines START BYTES NAME, such as /tmp/perf-4242.map", path)
		}
	}
	var mutex sync.Mutex
	reported := map[string]bool{}
	notify := func(line string) {
		mutex.Lock()
		defer mutex.Unlock()
		if !reported[line] {
			reported[line] = true
			a.warn("note: " + line)
		}
	}
	symbolize.Default = symbolize.Files{DebugDirs: a.debugDirs, PerfMaps: a.perfMaps, Notify: notify, Server: symbolize.NewDebuginfod(notify)}
	return nil
}
