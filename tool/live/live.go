// Package live is the full-screen view of a process in a terminal: `seemalloc top PID --live`. It takes a profile at
// every interval, but uses at most a hundredth of the process's time. Keys select the view of the latest profile.
package live

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/pprof/profile"

	"seemalloc/tool/attach"
	"seemalloc/tool/owner"
	"seemalloc/tool/report"
)

// Source is the process to show.
type Source interface {
	// Sample takes a symbolized profile of this kind, and the statistics (nil if the library has none). After an error
	// of type Gone there are no further calls. The duration is an upper bound of the time for which the process was
	// busy; symbolizing is not part of it.
	Sample(kind string) (*profile.Profile, *attach.Stats, time.Duration, error)
}

// ProcessExited is the error if the process has ended.
type ProcessExited struct{ Err error }

func (g ProcessExited) Error() string { return g.Err.Error() }

// Options configures a screen.
type Options struct {
	Title    string
	Kinds    []string // the first one is shown initially
	By, Unit string   // as in report.SampleIndex
	Sort     string   // flat or cum
	Interval time.Duration
	Filters  map[string]*regexp.Regexp // focus, ignore, hide, show, thread
	Raw      bool                      // show stacks as they are, instead of charging memory to the program's functions
}

const (
	minInterval = 250 * time.Millisecond
	maxInterval = time.Minute
	// Profiles may keep the process busy for a hundredth of the time, and this tool for a fifth.
	share     = 100
	toolShare = 5
)

// Screen shows a source. It implements a bubbletea model.
type Screen struct {
	source  Source
	options Options

	width, height int
	kind          int
	sampleType    string // selected by the user; "": as in the options
	byCum, paused bool
	help          bool
	typed         *filterInput // a filter that is being typed

	last    *profile.Profile // unmodified, for other types and filters
	base    *profile.Profile // base of the comparison (shown as "since")
	stats   *attach.Stats
	rates   *report.Activity
	looked  time.Time
	problem string
	gone    bool
	pause   time.Duration // until the next profile
	round   int           // number of the current request: answers and timers of earlier ones are ignored

	top             *report.Top
	shown           *profile.Profile // filtered; the input of top
	index           int
	selected        string // a function, which stays selected when the order changes
	row, first      int
	focusNeighbours *report.Neighbours // of the selected function, for the second page
}

// filterInput is an input line.
type filterInput struct{ filter, text string }

// New returns a screen.
func New(source Source, options Options) *Screen {
	if options.Filters == nil {
		options.Filters = map[string]*regexp.Regexp{}
	}
	return &Screen{source: source, options: options, byCum: options.Sort == "cum", width: 80, height: 24}
}

// Run shows the screen until the user quits.
func Run(source Source, options Options) error {
	_, err := tea.NewProgram(New(source, options)).Run()
	return err
}

type sampleMsg struct {
	round   int
	kind    int
	profile *profile.Profile
	stats   *attach.Stats
	err     error
	busy    time.Duration // time for which the process was busy
	took    time.Duration
}

type sampleTick struct{ round int }

// sample takes a profile in the background.
func (s *Screen) sample() tea.Cmd {
	round, kind := s.round, s.kind
	return func() tea.Msg {
		began := time.Now()
		p, stats, busy, err := s.source.Sample(s.options.Kinds[kind])
		return sampleMsg{round, kind, p, stats, err, busy, time.Since(began)}
	}
}

func (s *Screen) Init() tea.Cmd { return s.sample() }

func (s *Screen) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch m := message.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
		s.follow()
	case sampleMsg:
		return s, s.handleSample(m)
	case sampleTick:
		if m.round == s.round && !s.paused && !s.gone {
			return s, s.sample()
		}
	case tea.KeyPressMsg:
		return s, s.key(tea.Key(m))
	case tea.PasteMsg:
		return s, s.paste(m.Content)
	}
	return s, nil
}

// key handles one key.
func (s *Screen) key(k tea.Key) tea.Cmd {
	if s.typed != nil {
		s.handleFilterKey(k)
		return nil
	}
	return s.press(k.String())
}

// paste handles pasted text like typed letters.
func (s *Screen) paste(text string) tea.Cmd {
	var all []tea.Cmd
	for _, letter := range text {
		all = append(all, s.key(tea.Key{Code: letter, Text: string(letter)}))
	}
	return tea.Batch(all...)
}

// handleSample handles the answer of the source.
func (s *Screen) handleSample(m sampleMsg) tea.Cmd {
	if m.round != s.round {
		return nil
	}
	if m.err != nil {
		s.problem = m.err.Error()
		_, s.gone = m.err.(ProcessExited)
	} else {
		s.problem = ""
		s.looked = time.Now()
		s.last = m.profile
		if m.stats != nil && s.stats != nil && m.stats.TimeNS > s.stats.TimeNS {
			rates := report.NewActivity(s.stats, m.stats)
			s.rates = &rates
		}
		s.stats = m.stats
		s.rebuildRows()
	}
	if s.gone {
		return nil
	}
	round := s.round
	s.pause = min(max(s.options.Interval, share*m.busy, toolShare*m.took), max(maxInterval, s.options.Interval))
	return tea.Tick(s.pause, func(time.Time) tea.Msg { return sampleTick{round} })
}

// rebuildRows builds the table from the latest profile: filters, difference, order.
func (s *Screen) rebuildRows() {
	s.top, s.shown = nil, nil
	if s.last == nil {
		return
	}
	p, baseTotal, variance, err := s.difference()
	if err != nil {
		s.problem = err.Error()
		return
	}
	if s.index, err = s.sampleIndex(p); err != nil {
		s.problem = err.Error()
		return
	}
	if !s.options.Raw {
		if err := p.RemoveUninteresting(); err != nil {
			s.problem = err.Error()
			return
		}
		owner.Charge(p, owner.FindWrappers(s.last, s.base))
	}
	if s.top, err = report.NewTop(p, s.index); err != nil {
		s.problem = err.Error()
		return
	}
	s.shown = p
	if s.base != nil {
		s.top.ConvertToChange(baseTotal, report.StandardError(math.Sqrt(variance)))
	}
	s.sort()
	if s.focusNeighbours != nil {
		around := report.NeighboursOf(p, s.index, s.selected)
		s.focusNeighbours = &around
	}
}

// difference returns the filtered latest profile, minus the filtered base if there is one, with the total of the base
// and the variance of the difference.
func (s *Screen) difference() (*profile.Profile, int64, float64, error) {
	p := s.filtered(s.last)
	if s.base == nil {
		return p, 0, 0, nil
	}
	base := s.filtered(s.base)
	total, variance := int64(0), 0.0
	for _, of := range []*profile.Profile{p, base} {
		index, err := s.sampleIndex(of)
		if err != nil {
			return nil, 0, 0, err
		}
		variance += report.Variance(of, index)
		total = report.Total(of, index)
	}
	paired := report.Paired(base, p)
	p, err := report.Subtract(p, base)
	if err != nil || !paired {
		return p, total, variance, err
	}
	index, err := s.sampleIndex(p)
	if err != nil {
		return nil, 0, 0, err
	}
	return p, total, report.Variance(p, index), nil
}

// filtered returns a filtered copy of p.
func (s *Screen) filtered(p *profile.Profile) *profile.Profile {
	p = p.Copy()
	of := s.options.Filters
	if wanted := of["thread"]; wanted != nil {
		report.FilterThreads(p, wanted)
	}
	p.FilterSamplesByName(of["focus"], of["ignore"], of["hide"], of["show"])
	return p
}

func (s *Screen) sampleIndex(p *profile.Profile) (int, error) {
	if s.sampleType != "" {
		return report.SampleIndex(p, s.sampleType, s.options.Unit)
	}
	return report.SampleIndex(p, s.options.By, s.options.Unit)
}

func (s *Screen) sort() {
	if s.top == nil {
		return
	}
	s.top.Sort(map[bool]string{false: "flat", true: "cum"}[s.byCum])
	if s.selected == "" && len(s.top.Rows) > 0 {
		s.selected = s.top.Rows[0].Name
	}
	// The selected function stays selected at its new position. If it has disappeared, another one in the same position
	// is selected.
	if at := slices.IndexFunc(s.top.Rows, func(r report.Row) bool { return r.Name == s.selected }); at >= 0 {
		s.row = at
	}
	s.follow()
}

// follow keeps the selected row inside the table and on the screen.
func (s *Screen) follow() {
	count := 0
	if s.top != nil {
		count = len(s.top.Rows)
	}
	s.row = max(0, min(s.row, count-1))
	if count > 0 && s.focusNeighbours == nil {
		s.selected = s.top.Rows[s.row].Name
	}
	page := s.page()
	s.first = max(0, min(s.first, count-page))
	s.first = min(s.first, s.row)
	s.first = max(s.first, s.row-page+1)
}

// press executes the command of a key.
func (s *Screen) press(key string) tea.Cmd {
	if s.help {
		s.help = false
		return nil
	}
	moves := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -s.page(), "pgdown": s.page(), "home": -1 << 30, "end": 1 << 30}
	if by, isMove := moves[key]; isMove {
		if s.focusNeighbours == nil {
			s.row = max(s.row+by, 0)
			s.follow()
		}
		return nil
	}
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "?", "h":
		s.help = true
	case "enter":
		if s.shown != nil && s.selected != "" {
			around := report.NeighboursOf(s.shown, s.index, s.selected)
			s.focusNeighbours = &around
		}
	case "esc", "backspace", "left":
		s.focusNeighbours = nil
		s.follow()
	case "r":
		s.options.Raw = !s.options.Raw
		s.focusNeighbours = nil
		s.rebuildRows()
	case "s":
		s.byCum = !s.byCum
		s.sort()
	case "t":
		s.nextType()
	case "tab", "shift+tab":
		step := map[string]int{"tab": 1, "shift+tab": len(s.options.Kinds) - 1}[key]
		return s.show((s.kind + step) % len(s.options.Kinds))
	case "b":
		if s.base = s.last; s.top != nil && s.top.Change {
			s.base = nil
		}
		s.rebuildRows()
	case "space":
		if s.paused = !s.paused; !s.paused && !s.gone {
			s.round++
			return s.sample()
		}
	case "+":
		s.options.Interval = max(s.options.Interval/2, minInterval)
	case "-":
		s.options.Interval = min(s.options.Interval*2, maxInterval)
	case "/", "f":
		s.startFilterInput("focus")
	case "\\", "i":
		s.startFilterInput("ignore")
	case "x":
		s.startFilterInput("hide")
	case "c":
		clear(s.options.Filters)
		s.rebuildRows()
	}
	return nil
}

// show switches to another kind of profile, for which there is no data yet.
func (s *Screen) show(kind int) tea.Cmd {
	s.kind, s.round = kind, s.round+1
	s.last, s.base, s.focusNeighbours, s.sampleType, s.selected, s.row = nil, nil, nil, "", "", 0
	s.problem = ""
	s.rebuildRows()
	if s.gone {
		return nil
	}
	return s.sample()
}

// nextType switches to the next sample type of the profile: bytes or objects, in use or allocated.
func (s *Screen) nextType() {
	if s.last == nil || s.top == nil {
		return
	}
	types := s.last.SampleType
	at := slices.IndexFunc(types, func(t *profile.ValueType) bool { return t.Type == s.top.Type })
	s.sampleType = types[(at+1)%len(types)].Type
	s.rebuildRows()
}

func (s *Screen) startFilterInput(filter string) {
	s.typed = &filterInput{filter: filter}
	if given := s.options.Filters[filter]; given != nil {
		s.typed.text = given.String()
	}
}

// handleFilterKey handles a key while a filter is being typed.
func (s *Screen) handleFilterKey(key tea.Key) {
	switch key.String() {
	case "esc", "ctrl+c":
		s.typed = nil
	case "backspace":
		if letters := []rune(s.typed.text); len(letters) > 0 {
			s.typed.text = string(letters[:len(letters)-1])
		}
	case "ctrl+u":
		s.typed.text = ""
	case "enter":
		s.problem = ""
		if s.typed.text == "" {
			delete(s.options.Filters, s.typed.filter)
		} else if compiled, err := regexp.Compile(s.typed.text); err != nil {
			s.problem = fmt.Sprintf("%s %s: %v", s.typed.filter, s.typed.text, err)
		} else {
			s.options.Filters[s.typed.filter] = compiled
		}
		s.typed = nil
		s.rebuildRows()
	default:
		s.typed.text += key.Text
	}
}
