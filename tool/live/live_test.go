package live

import (
	"errors"
	"fmt"
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/testseed"
)

// rows maps stacks to bytes. Stacks have the outermost function first: "main parse grow".
type rows map[string]int64

func heapOf(of rows) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1, TimeNanos: 1,
	}
	locations := map[string]*profile.Location{}
	for stack, bytes := range of {
		sample := &profile.Sample{Value: []int64{1, bytes}}
		for _, name := range strings.Fields(stack) {
			if locations[name] == nil {
				id := uint64(len(locations) + 1)
				function := &profile.Function{ID: id, Name: name}
				locations[name] = &profile.Location{ID: id, Line: []profile.Line{{Function: function}}}
				p.Function = append(p.Function, function)
				p.Location = append(p.Location, locations[name])
			}
			sample.Location = append([]*profile.Location{locations[name]}, sample.Location...)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

// process is a source with predefined answers.
type process struct {
	heap  rows
	err   error
	asked []string
}

func (p *process) Sample(kind string) (*profile.Profile, *attach.Stats, time.Duration, error) {
	p.asked = append(p.asked, kind)
	if p.err != nil {
		return nil, nil, 0, p.err
	}
	stats := &attach.Stats{TimeNS: int64(len(p.asked)) * 1e9}
	stats.Memory.RSS = 300 << 20
	stats.Sampling.Interval = 512 << 10
	return heapOf(p.heap), stats, 0, nil
}

func start(t *testing.T, p *process, options Options) *Screen {
	t.Helper()
	if options.Kinds == nil {
		options.Kinds = []string{"heap", "peak", "churn"}
	}
	options.Title, options.Unit, options.Interval = "shop (pid 7)", "bytes", time.Second
	s := New(p, options)
	s.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
	s.Update(s.Init()())
	return s
}

// key is one key, or pasted text.
func key(name string) tea.Msg {
	special := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEsc}, "tab": {Code: tea.KeyTab}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
		"backspace": {Code: tea.KeyBackspace}, "end": {Code: tea.KeyEnd}, "home": {Code: tea.KeyHome}, "pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp},
		"ctrl+u": {Code: 'u', Mod: tea.ModCtrl}, " ": {Code: tea.KeySpace, Text: " "}}
	if k, known := special[name]; known {
		return tea.KeyPressMsg(k)
	}
	if letters := []rune(name); len(letters) == 1 {
		return tea.KeyPressMsg{Code: letters[0], Text: name}
	}
	return tea.PasteMsg{Content: name}
}

// press presses keys and delivers the answers of the requests that they trigger.
func press(s *Screen, keys ...string) {
	for _, name := range keys {
		if _, command := s.Update(key(name)); command != nil {
			if message, isLook := command().(sampleMsg); isLook {
				s.Update(message)
			}
		}
	}
}

// look takes the next profile.
func look(s *Screen) { s.Update(s.sample()()) }

// table returns the displayed names in order.
func table(s *Screen) (names []string) {
	for _, line := range strings.Split(ansi.Strip(s.text()), "\n")[headLines:] {
		if fields := strings.Fields(line); len(fields) > 5 && strings.HasSuffix(fields[2], "%") {
			names = append(names, fields[len(fields)-1])
		}
	}
	return names
}

func expect(t *testing.T, s *Screen, pattern string) {
	t.Helper()
	if text := ansi.Strip(s.text()); !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("no %q in:\n%s", pattern, text)
	}
}

func same(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if text := strings.Join(got, " "); text != want {
		t.Errorf("%s: %q, want %q", what, text, want)
	}
}

func shop() *process {
	return &process{heap: rows{"main load": 40 << 20, "main serve parse": 30 << 20, "main serve answer": 20 << 20}}
}

func TestSortedByKey(t *testing.T) {
	s := start(t, shop(), Options{})
	same(t, "flat", table(s), "load parse answer main serve")
	expect(t, s, `shop \(pid 7\) +heap .* every 1s`)
	expect(t, s, `RSS 300\.0 MiB`)
	expect(t, s, `bytes in use: 90\.00 MiB`)
	press(s, "s")
	same(t, "cum", table(s), "main serve load parse answer")
	press(s, "t")
	expect(t, s, `objects in use: 3\b`)
}

// Memory is charged to the program's functions, until r shows the stacks as they are.
func TestStacksAsTheyAre(t *testing.T) {
	s := start(t, &process{heap: rows{"main load std::vector::push_back": 40 << 20, "main parse xmalloc": 20 << 20}}, Options{})
	same(t, "charged", table(s), "load parse main")
	press(s, "r")
	same(t, "raw", table(s), "std::vector::push_back xmalloc main load parse")
	expect(t, s, `stacks as they are`)
	expect(t, s, `bytes in use: 60\.00 MiB`)
	press(s, "r")
	same(t, "charged again", table(s), "load parse main")
}

func TestSelectionIsKept(t *testing.T) {
	p := shop()
	s := start(t, p, Options{})
	press(s, "down")
	p.heap["main serve parse"] = 90 << 20
	look(s)
	same(t, "order", table(s), "parse load answer main serve")
	press(s, "enter")
	expect(t, s, `called by\n.*100\.00% +serve\n\n.*90\.00 MiB +parse\n`)
	press(s, "esc", "down", "enter")
	expect(t, s, `40\.00 MiB +load\n`)
}

func TestChangesFromNowOn(t *testing.T) {
	p := shop()
	s := start(t, p, Options{})
	press(s, "b")
	expect(t, s, `Nothing has changed so far`)
	p.heap["main serve parse"] += 5 << 20
	p.heap["main load"] -= 9 << 20
	look(s)
	same(t, "changes", table(s), "load parse serve main")
	expect(t, s, `change of bytes in use: -4\.00 MiB.* \(90\.00 MiB before\)`)
	expect(t, s, `\+5\.00 MiB`)
	press(s, "/", "p", "a", "r", "s", "e", "enter")
	expect(t, s, `change of bytes in use: \+5\.00 MiB.* \(30\.00 MiB before\)`) // of the filtered profile
	expect(t, s, `\+5\.00 MiB +16\.67% .* parse`)
	press(s, "c", "b")
	same(t, "all", table(s), "parse load answer main serve")
}

func TestFilters(t *testing.T) {
	s := start(t, shop(), Options{})
	press(s, "/", "p", "q", "backspace", "a", "r", "enter")
	same(t, "focus", table(s), "parse main serve")
	press(s, "/", "ctrl+u", "(", "enter")
	expect(t, s, `focus \(: error parsing regexp`)
	same(t, "a wrong one changes nothing", table(s), "parse main serve")
	press(s, "ciserve", "enter") // pasted
	same(t, "ignore", table(s), "load main")
	press(s, "c", "/", "n", "o", "n", "e", "enter")
	expect(t, s, `No stack passes the filters`)
	press(s, "/", "esc", "c")
	same(t, "cleared", table(s), "load parse answer main serve")
}

func TestPauseSendsNoRequests(t *testing.T) {
	p := shop()
	s := start(t, p, Options{})
	press(s, " ")
	if _, command := s.Update(sampleTick{s.round}); command != nil {
		t.Error("it looks while it is paused")
	}
	expect(t, s, "paused")
	before := len(p.asked)
	press(s, " ")
	if len(p.asked) != before+1 {
		t.Errorf("going on asks %d times, want once", len(p.asked)-before)
	}
	// The timer from before the pause would be a second one.
	if _, command := s.Update(sampleTick{s.round - 1}); command != nil {
		t.Error("an old timer still looks")
	}
}

func TestSwitchKind(t *testing.T) {
	p := shop()
	s := start(t, p, Options{})
	late := s.sample()() // requested before the change and answered after it
	press(s, "tab")
	if got := p.asked[len(p.asked)-1]; got != "peak" {
		t.Errorf("asked for %s, want peak", got)
	}
	if _, command := s.Update(late); command != nil {
		t.Error("an answer to what is no longer asked starts a timer")
	}
	expect(t, s, `pid 7\) +peak`)
}

func TestIntervalBoundsTheLoad(t *testing.T) {
	for _, of := range []struct{ busy, took, want time.Duration }{
		{0, 0, time.Second},
		{12 * time.Millisecond, 20 * time.Millisecond, 1200 * time.Millisecond}, // a hundredth of the time for the process
		{time.Millisecond, 2 * time.Second, 10 * time.Second},                   // a fifth of the time for the tool, including symbolizing
		{30 * time.Second, 30 * time.Second, time.Minute},                       // the maximum wait
	} {
		s := start(t, shop(), Options{})
		s.handleSample(sampleMsg{round: s.round, profile: heapOf(rows{"main": 1}), busy: of.busy, took: of.took})
		if s.pause != of.want {
			t.Errorf("busy for %s of %s: the next look after %s, want %s", of.busy, of.took, s.pause, of.want)
		}
		expect(t, s, "every "+of.want.String())
	}
}

func TestExitIsReported(t *testing.T) {
	p := shop()
	s := start(t, p, Options{})
	p.err = errors.New("no answer within 30s")
	look(s)
	expect(t, s, "no answer within 30s")
	same(t, "the last table stays", table(s), "load parse answer main serve")
	p.err = ProcessExited{errors.New("the process has ended")}
	if _, command := s.Update(s.sample()()); command != nil {
		t.Error("it still sends requests")
	}
	expect(t, s, `has ended\n`)
	same(t, "the last table stays", table(s), "load parse answer main serve")
}

// For any keys on a screen of any size: no more lines or columns than the screen has, and the selected row is visible.
func TestAnyKeysOnAnyScreen(t *testing.T) {
	seed := testseed.Of(t)
	random := rand.New(rand.NewSource(seed))
	keys := []string{"up", "down", "pgup", "pgdown", "home", "end", "enter", "esc", "s", "t", "tab", "b", " ", "+", "-", "/", "i", "x", "c", "?", "a", "(", "backspace"}
	p := shop()
	for i := range 60 {
		p.heap[fmt.Sprintf("main f%d g%d", i%7, i)] = random.Int63n(1 << 20)
	}
	s := start(t, p, Options{})
	for step := range 3000 {
		switch random.Intn(10) {
		case 0:
			s.Update(tea.WindowSizeMsg{Width: 1 + random.Intn(120), Height: 1 + random.Intn(40)})
		case 1:
			p.heap[fmt.Sprintf("main f%d g%d", random.Intn(7), random.Intn(60))] = random.Int63n(1 << 20)
			delete(p.heap, fmt.Sprintf("main f%d g%d", random.Intn(7), random.Intn(60)))
			look(s)
		default:
			press(s, keys[random.Intn(len(keys))])
		}
		lines := strings.Split(s.text(), "\n")
		if len(lines) != s.height {
			t.Fatalf("seed %d, step %d: %d lines on a screen of %d", seed, step, len(lines), s.height)
		}
		for _, line := range lines {
			if got := ansi.StringWidth(line); got > s.width {
				t.Fatalf("seed %d, step %d: a line of %d columns on a screen of %d: %q", seed, step, got, s.width, line)
			}
		}
		if s.top != nil && len(s.top.Rows) > 0 && (s.row < s.first || s.row >= s.first+s.page() || s.row >= len(s.top.Rows)) {
			t.Fatalf("seed %d, step %d: row %d of %d is chosen, %d to %d are shown", seed, step, s.row, len(s.top.Rows), s.first, s.first+s.page())
		}
	}
}
