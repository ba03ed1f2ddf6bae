package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cause is a program whose memory has a known cause.
type cause struct {
	name    string
	command func(t *testing.T) []string // nil: a tool that it needs is missing
	conf    string
	// most is the function that `top` names first; "": not checked.
	most string
	// grows is the function whose memory grows, "" if none does; class is its class.
	grows, class string
	// finding is what doctor finds, "" if nothing; place is its first place, "" if it has none.
	finding, place string
}

func growing(way string) func(*testing.T) []string {
	return func(*testing.T) []string { return []string{grow, way, "5000000", "4"} }
}

func ailing(way string) func(*testing.T) []string {
	return func(*testing.T) []string { return []string{sick, way} }
}

// example builds a Rust program of the documentation.
func example(name string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		if _, err := exec.LookPath("rustc"); err != nil {
			return nil
		}
		program := filepath.Join(t.TempDir(), name)
		if err := build("rustc", "-O", "-g", "../../docs/examples/"+name+".rs", "-o", program); err != nil {
			t.Fatal(err)
		}
		return []string{program}
	}
}

// node runs a script whose functions have symbols: Node writes them to a file.
func node(script string) func(*testing.T) []string {
	return func(t *testing.T) []string {
		if _, err := exec.LookPath("node"); err != nil {
			return nil
		}
		file, err := filepath.Abs("testdata/" + script)
		if err != nil {
			t.Fatal(err)
		}
		return []string{"node", "--perf-basic-prof", "--interpreted-frames-native-stack", file}
	}
}

var causes = []cause{
	// The sessions are in a registry. Their own 32 bytes are visible after a longer time than their text.
	{name: "a leak behind templates", command: growing("leak"), most: "Session::Session", grows: "Session::Session|Registry::remember", class: "leak-like", finding: "growth", place: "Session::Session|Registry::remember"},
	{name: "a Rust Vec that grows", command: example("indexer"), most: "indexer::add_to_index", grows: "indexer::add_to_index", class: "leak-like", finding: "growth", place: "indexer::add_to_index"},
	{name: "native memory of Node", command: node("buffers.js"), most: "rememberBuffer", grows: "rememberBuffer", class: "leak-like", finding: "growth", place: "rememberBuffer"},
	{name: "a cache without eviction", command: growing("cache"), most: "cache_put", grows: "cache_put", class: "leak-like", finding: "growth", place: "cache_put"},
	{name: "a pool", command: growing("pool"), most: "Pool::take", grows: "Pool::take", class: "leak-like", finding: "growth", place: "Pool::take"},
	{name: "a burst", command: growing("burst"), most: "hold"},
	{name: "pinned spans", command: ailing("pins"), conf: "purge_delay:1000", finding: "fragmentation", place: "remember_session"},
	{name: "threads that hoard", command: ailing("hoards"), conf: "purge_delay:1000", finding: "hoarding"},
}

// Each command, and the answers that the Summary page shows, name the cause first; a program without a problem is clean.
func TestEachCommandNamesTheCause(t *testing.T) {
	need(t)
	for _, c := range causes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := c.command(t)
			if command == nil {
				t.Skip("the compiler or the interpreter is missing")
			}
			args := []string{binary, "run"}
			if c.conf != "" {
				args = append(args, "--conf", c.conf)
			}
			p := launch(t, nil, append(append(args, "--"), command...)...)
			t.Cleanup(func() { os.Remove("/tmp/perf-" + p.pid + ".map") }) // Node's symbols
			waitFor(t, socketOf(p.pid))
			ask := startPage(t, p.pid)
			began := time.Now()
			expectCause(t, "doctor", func() string { return c.judgeDoctor(examine(t, p.pid, "5s")) })
			expectCause(t, "growth", func() string { return c.judgeGrowth(growthOf(t, p.pid, "12s")) })
			if c.most != "" {
				if report, _, _ := top(t, p.pid); !isFunction(report.Functions[0].Name, c.most) {
					t.Errorf("top names %s first, expected %s", report.Functions[0].Name, c.most)
				}
			}
			// The page has watched since the start.
			time.Sleep(time.Until(began.Add(20 * time.Second)))
			expectCause(t, "the page's findings", func() string {
				var d diagnosis
				ask("doctor", &d)
				return c.judgeDoctor(d)
			})
			expectCause(t, "the page's growth", func() string {
				var suspects []struct {
					Stack []string
					Class string
				}
				ask("suspects", &suspects)
				switch {
				case len(suspects) == 0 && c.grows == "":
					return ""
				case len(suspects) == 0:
					return "nothing"
				case !isFunction(suspects[0].Stack[0], c.grows) || suspects[0].Class != c.class:
					return suspects[0].Stack[0] + ", " + suspects[0].Class
				}
				return ""
			})
		})
	}
}

// expectCause repeats a look until most looks agree (expectClean). look returns the error.
func expectCause(t *testing.T, from string, look func() string) {
	t.Helper()
	expectClean(t, func() string {
		wrong := look()
		if wrong != "" {
			wrong = from + ": " + wrong
			time.Sleep(time.Second)
		}
		return wrong
	})
}

func (c cause) judgeDoctor(d diagnosis) string {
	switch {
	case len(d.Findings) == 0 && c.finding == "":
		return ""
	case len(d.Findings) == 0:
		return "nothing"
	}
	first := d.Findings[0]
	if first.ID != c.finding {
		return d.ids()
	}
	if c.place != "" && (len(first.Sites) == 0 || !isFunction(first.Sites[0].Place, c.place)) {
		return first.Figure
	}
	return ""
}

func (c cause) judgeGrowth(g growthResult) string {
	switch {
	case len(g.Growing) == 0 && c.grows == "":
		return ""
	case len(g.Growing) == 0:
		return "nothing"
	case !isFunction(g.Growing[0].Name, c.grows) || g.Growing[0].Class != c.class:
		return g.names() + ", " + g.Growing[0].Class
	}
	return ""
}

// isFunction compares a name, which may have template arguments or a line after it. Either of names may be right.
func isFunction(place, names string) bool {
	for name := range strings.SplitSeq(names, "|") {
		if name != "" && (place == name || strings.HasPrefix(place, name+" ") || strings.HasPrefix(place, name+"<")) {
			return true
		}
	}
	return false
}
