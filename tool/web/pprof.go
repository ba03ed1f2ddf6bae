package web

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/pprof/profile"

	"seemalloc/tool/report"
)

// pprof's own pages of a moment are below pprof/NAME/. NAME is a moment ("12"), a comparison of two ("12-3"), or a kind
// of profile with its number since the start ("lifetime.1"). A name without a number ("0", "lifetime") redirects to a
// current profile.

//go:embed pprof.css
var pprofStyle string

// maxPprofPages is the maximum number of profiles with cached pages. Each has a copy of its profile.
const maxPprofPages = 4

type pprofPages struct {
	mutex sync.Mutex
	made  []madePages // the most recently requested one at the end
	taken int
	last  map[string]numbered // of each kind
}

// numbered is a profile of a kind with its name below pprof/.
type numbered struct {
	profile *profile.Profile
	name    string
}

// number returns the name for a profile of a kind. It returns the same name for the same profile until there is another
// one.
func (p *pprofPages) number(kind string, taken *profile.Profile) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if one, ok := p.last[kind]; ok && one.profile == taken {
		return one.name
	}
	if p.last == nil {
		p.last = map[string]numbered{}
	}
	p.taken++
	one := numbered{taken, fmt.Sprintf("%s.%d", kind, p.taken)}
	p.last[kind] = one
	return one.name
}

type madePages struct {
	name  string
	title string
	back  string // the view of our page, after the #
	pages map[string]http.Handler
}

func (p *pprofPages) find(name string) (madePages, bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	at := slices.IndexFunc(p.made, func(m madePages) bool { return m.name == name })
	if at < 0 {
		return madePages{}, false
	}
	found := p.made[at]
	p.made = append(slices.Delete(p.made, at, at+1), found)
	return found, true
}

func (p *pprofPages) keep(m madePages) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.made = slices.DeleteFunc(p.made, func(old madePages) bool { return old.name == m.name })
	p.made = append(p.made, m)
	if len(p.made) > maxPprofPages {
		p.made = slices.Delete(p.made, 0, 1)
	}
}

// pprof shows one of pprof's pages.
func (s *Server) pprof(w http.ResponseWriter, r *http.Request) {
	name, page := r.PathValue("name"), r.PathValue("page")
	shown, err := s.pprofOf(name)
	if err != nil {
		reply(w, func() (any, error) { return nil, err })
		return
	}
	if shown.name != name || page == "" {
		if page == "" {
			page = "top"
		}
		// A relative path, because the token is not known here.
		w.Header().Set("Location", (&url.URL{Path: "../" + shown.name + "/" + page, RawQuery: r.URL.RawQuery}).String())
		w.WriteHeader(http.StatusFound)
		return
	}
	handler := shown.pages[page]
	if handler == nil {
		http.Error(w, fmt.Sprintf("%s: pprof has no such page here", page), http.StatusNotFound)
		return
	}
	answer := askPprof(handler, r)
	for tries := 1; page == "disasm" && tries < disasmTries && answer.misses(); tries++ {
		answer = askPprof(handler, r)
	}
	if !strings.HasPrefix(answer.header.Get("Content-Type"), "text/html") {
		answer.forward(w, page)
		return
	}
	nonce, body := withPageStyle(answer.body.Bytes(), shown)
	// The scripts are inline. Nothing else may run, and nothing may be loaded.
	w.Header().Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; script-src 'nonce-%s' 'unsafe-hashes' %s; style-src 'unsafe-inline'; img-src data:", nonce, pprofHandler()))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(answer.status)
	_, _ = w.Write(body)
}

// disasmTries: pprof's disassembly randomly fails to find an existing function in about every other request. The
// reference tool does so too.
const disasmTries = 12

func askPprof(handler http.Handler, r *http.Request) *pprofAnswer {
	answer := &pprofAnswer{header: http.Header{}, status: http.StatusOK}
	handler.ServeHTTP(answer, r)
	return answer
}

func (a *pprofAnswer) misses() bool {
	return a.status == http.StatusBadRequest && bytes.Contains(a.body.Bytes(), []byte("no matches found"))
}

// pprofAnswer buffers the answer of one of pprof's handlers.
type pprofAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *pprofAnswer) Header() http.Header                { return a.header }
func (a *pprofAnswer) WriteHeader(status int)             { a.status = status }
func (a *pprofAnswer) Write(data []byte) (n int, _ error) { return a.body.Write(data) }

// forward forwards an answer that is not a page: a profile or an error.
func (a *pprofAnswer) forward(w http.ResponseWriter, page string) {
	if a.status == http.StatusNotImplemented && page == "graph" {
		http.Error(w, "pprof's graph needs the program dot (Debian: apt install graphviz). The Graph view of seemalloc's own page needs nothing.", http.StatusNotImplemented)
		return
	}
	for _, header := range []string{"Content-Type", "Content-Disposition"} {
		if value := a.header.Get(header); value != "" {
			w.Header().Set(header, value)
		}
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

// pprofHandler allows the only event handler in pprof's HTML.
func pprofHandler() string {
	sum := sha256.Sum256([]byte("pprof_toggle_asm(event)"))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// withPageStyle adds our style and a link back to the page, and permits its scripts to run.
func withPageStyle(written []byte, shown madePages) (nonce string, page []byte) {
	var random [16]byte
	_, _ = rand.Read(random[:])
	nonce = base64.StdEncoding.EncodeToString(random[:])
	page = bytes.ReplaceAll(written, []byte("<script>"), []byte(`<script nonce="`+nonce+`">`))
	page = bytes.ReplaceAll(page, []byte(`<script type="text/javascript">`), []byte(`<script nonce="`+nonce+`">`))
	page = bytes.Replace(page, []byte("</head>"), []byte("<style>\n"+pprofStyle+"</style>\n</head>"), 1)
	page = bytes.Replace(page, []byte("<html>"), []byte(`<html lang="en">`), 1)
	back := fmt.Sprintf(`<a id="back" href="../../#%s">← seemalloc</a> <span>pprof of %s</span>`, html.EscapeString(shown.back), html.EscapeString(shown.title))
	return nonce, bytes.Replace(page, []byte(`<a href="./">pprof</a>`), []byte(back), 1)
}

func (s *Server) pprofOf(name string) (madePages, error) {
	if shown, ok := s.pprofs.find(name); ok {
		return shown, nil
	}
	kind, number, numbered := strings.Cut(name, ".")
	if kind != "" && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz_") == "" {
		if numbered {
			return madePages{}, problem{http.StatusNotFound, fmt.Errorf("%s: this %s profile (number %s) is no longer available: open pprof from the page again", name, kind, number)}
		}
		return s.pprofNow(kind)
	}
	return s.pprofMoment(name)
}

// pprofNow takes a profile for pprof's pages. It uses the profile of other views if that was taken a moment ago.
func (s *Server) pprofNow(kind string) (madePages, error) {
	p, err := s.profileOfKind(kind)
	if err != nil {
		return madePages{}, err
	}
	name := s.pprofs.number(kind, p)
	if shown, ok := s.pprofs.find(name); ok {
		return shown, nil
	}
	return s.pprofMake(name, s.options.Title+", "+kind, url.Values{"view": {"functions"}, "kind": {kind}}, p)
}

func (s *Server) pprofMoment(name string) (madePages, error) {
	first, second, compares := strings.Cut(name, "-")
	var moments []Moment
	var profiles []*profile.Profile
	for _, text := range []string{first, second} {
		if text == "" && !compares {
			continue
		}
		id, err := strconv.Atoi(text)
		if err != nil {
			return madePages{}, badRequest("%q: expected a moment (12), two (12-3) or a kind of profile", name)
		}
		m, ok := s.history.Moment(id)
		if !ok {
			return madePages{}, problem{http.StatusNotFound, fmt.Errorf("%s: no such profile", text)}
		}
		p, err := m.Profile()
		if err != nil {
			return madePages{}, err
		}
		moments, profiles = append(moments, m), append(profiles, p)
	}
	at := strconv.Itoa(moments[0].ID)
	back := url.Values{"view": {"functions"}, "at": {at}}
	if !compares {
		if shown, ok := s.pprofs.find(at); ok {
			return shown, nil
		}
		return s.pprofMake(at, s.options.Title, back, profiles[0])
	}
	change, err := report.Subtract(profiles[0].Copy(), profiles[1].Copy())
	if err != nil {
		return madePages{}, err
	}
	base := strconv.Itoa(moments[1].ID)
	back.Set("base", base)
	return s.pprofMake(at+"-"+base, s.options.Title+", change", back, change)
}

func (s *Server) pprofMake(name, title string, back url.Values, p *profile.Profile) (madePages, error) {
	pages, err := report.PprofPages(p)
	if err != nil {
		return madePages{}, errors.Join(errors.New("pprof cannot show this profile"), err)
	}
	made := madePages{name: name, title: title, back: back.Encode(), pages: pages}
	s.pprofs.keep(made)
	return made, nil
}
