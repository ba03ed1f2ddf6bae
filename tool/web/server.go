// Package web serves a page that shows a process live, or saved profiles: its memory, which functions hold it, and its
// changes.
//
// All paths are below a random token, on the loopback address. Requests from other sites are rejected by their Host and
// Origin headers. The process is only observed unless the user allows more (Options.AllowSet). The page is in web/ and
// is built into dist/, which is embedded in the tool: nothing is loaded from elsewhere.
package web

import (
	"crypto/rand"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"seemalloc/tool/attach"
	"seemalloc/tool/doctor"
)

//go:embed dist
var dist embed.FS

// Options configures a server.
type Options struct {
	Title    string
	PID      int  // of a process that has ended
	AllowSet bool // the page may set options, purge free memory and profile CPU time
	Kinds    []Kind
	// The location of source code, as for `seemalloc list`: directories to search, and path prefixes to remove,
	// separated by ":".
	SourcePath, TrimPath string
}

// Server answers the page's requests.
type Server struct {
	options   Options
	history   *History
	process   *Process // nil: saved profiles only
	watcher   *Watcher
	token     string
	mux       *http.ServeMux
	heapMap   heapMap
	tracer    tracer
	handlers  map[string]func(url.Values) (any, error) // the handlers of GET api/…
	kinds     recentProfiles
	cpus      cpuProfiler
	diagnosis rateLimited[*doctor.Diagnosis]
	pprofs    pprofPages
	sources   sources
	// Caches for the suspects of selected rows and of threads.
	filteredLiveBytes filteredLiveBytes
	byThread          byThread
	first             func() (any, error) // the page's first request; nil: not prepared
}

// NewServer creates a server. process and watcher are nil for saved profiles.
func NewServer(options Options, history *History, process *Process, watcher *Watcher) (*Server, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	s := &Server{options: options, history: history, process: process, watcher: watcher, token: hex.EncodeToString(random[:]), mux: http.NewServeMux(),
		handlers: map[string]func(url.Values) (any, error){}}
	s.sources.path, s.sources.trim = options.SourcePath, options.TrimPath
	assets, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, err
	}
	s.mux.Handle("GET /", http.FileServerFS(assets))
	s.get("state", s.state)
	s.get("series", s.series)
	s.get("moments", s.moments)
	s.get("profile", s.profile)
	s.get("source", s.source)
	s.get("suspects", s.suspects)
	s.get("choices", s.choices)
	s.get("process", s.processInfo)
	s.get("stats", s.stats)
	s.get("requests", s.requests)
	s.get("settings", s.settings)
	s.get("doctor", s.doctor)
	s.get("lifetimes", s.lifetimes)
	s.get("trace", s.trace)
	s.get("cpu", s.cpu)
	s.get("map", s.mapOfAll)
	s.get("map/parts", s.mapOfRange)
	s.mux.HandleFunc("GET /api/download", s.download)
	s.mux.HandleFunc("GET /api/report", s.report)
	s.mux.HandleFunc("GET /pprof/{name}/{page...}", s.pprof)
	s.post("moments", s.takeMoment)
	s.post("settings", s.set)
	s.post("purge", s.purge)
	s.post("cpu", s.startCPU)
	s.post("cpu/stop", s.stopCPU)
	if process != nil && history.isWritten() {
		go s.storeOtherKinds()
	}
	return s, nil
}

// Path returns the path of the page: "/TOKEN/".
func (s *Server) Path() string { return "/" + s.token + "/" }

// ServeHTTP accepts requests with the token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isLocal(r.Host) {
		http.Error(w, "this page is available only on this machine", http.StatusForbidden)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameHost(origin, r.Host) {
		http.Error(w, "requests from other sites are refused", http.StatusForbidden)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.URL.Path == "/"+s.token {
		http.Redirect(w, r, s.Path(), http.StatusMovedPermanently) // the page uses relative paths
		return
	}
	if r.URL.Path == "/favicon.ico" { // browsers request it for plain-text answers; pages declare that they have no icon
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.StripPrefix("/"+s.token, s.mux).ServeHTTP(w, r)
}

func isLocal(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host
}

// problem is an error with its HTTP status.
type problem struct {
	status int
	error
}

func badRequest(format string, args ...any) error {
	return problem{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

func (s *Server) get(name string, answer func(url.Values) (any, error)) {
	s.handlers[name] = answer
	s.mux.HandleFunc("GET /api/"+name, func(w http.ResponseWriter, r *http.Request) {
		reply(w, func() (any, error) { return answer(r.URL.Query()) })
	})
}

func (s *Server) post(name string, answer func(*http.Request) (any, error)) {
	s.mux.HandleFunc("POST /api/"+name, func(w http.ResponseWriter, r *http.Request) {
		// A form on another site cannot send this content type without a preflight request.
		if r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "expected application/json", http.StatusUnsupportedMediaType)
			return
		}
		reply(w, func() (any, error) { return answer(r) })
	})
}

func reply(w http.ResponseWriter, answer func() (any, error)) {
	value, err := answer()
	if err != nil {
		status := http.StatusBadGateway // the process did not answer
		var known problem
		var refused *attach.ServerError
		if errors.As(err, &known) {
			status = known.status
		} else if errors.As(err, &refused) {
			status = http.StatusBadRequest // the process answered with an error
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
}

// number reads a numeric parameter. It returns 0 if the parameter is absent.
func number(q url.Values, name string) (int64, error) {
	text := q.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, badRequest("%s=%q: expected a number", name, text)
	}
	return n, nil
}

func (s *Server) needProcess() error {
	if s.process == nil {
		return badRequest("saved profiles are shown: there is no process to query")
	}
	return nil
}

// ---- answers for the page ----

type state struct {
	Title        string       `json:"title"`
	Process      bool         `json:"process"` // a process and not only files; its id may be 0, in another namespace
	PID          int          `json:"pid,omitempty"`
	Live         bool         `json:"live"` // the process is running
	Ended        string       `json:"ended,omitempty"`
	NotAnswering string       `json:"silent,omitempty"` // why the process does not answer at present
	AllowSet     bool         `json:"allow_set"`
	Kinds        []Kind       `json:"kinds"`            // kinds of profiles that can be taken
	Report       int64        `json:"report,omitempty"` // in a report: its time in ms since 1970
	Stored       *storedState `json:"stored,omitempty"` // a folder: its data can be requested by time
}

// Kind is a kind of profile.
type Kind struct {
	Name string `json:"name"`
	What string `json:"what"`
}

func (s *Server) state(url.Values) (any, error) {
	answer := state{Title: s.options.Title, AllowSet: s.options.AllowSet, Kinds: append([]Kind{}, s.options.Kinds...)}
	answer.Process, answer.PID, answer.Stored = s.isProcess(), s.pid(), s.history.storedState()
	if s.process != nil {
		answer.Live = true
		if _, err := s.watcher.Last(); err != nil {
			answer.Live, answer.Ended = false, err.Error()
		} else if err := s.watcher.NotAnswering(); err != nil {
			answer.NotAnswering = err.Error()
		}
	}
	return answer, nil
}

func (s *Server) stats(url.Values) (any, error) {
	if s.process == nil {
		return s.history.LastAnswer("stats")
	}
	last, err := s.watcher.Last()
	if last == nil && err == nil {
		err = problem{http.StatusServiceUnavailable, errors.New("there are no statistics of the process yet")}
	}
	if last == nil {
		return nil, err
	}
	return last, nil
}

func (s *Server) doctor(url.Values) (any, error) {
	return noted(s, "doctor", func() (*doctor.Diagnosis, error) {
		return s.diagnosis.get(func() (*doctor.Diagnosis, time.Duration, error) { return s.process.Diagnose(s.history) })
	})
}

// noted queries the process and stores the answer. For a process that has ended it returns the stored answer.
func noted[T any](s *Server, name string, query func() (T, error)) (any, error) {
	if s.process == nil {
		return s.history.LastAnswer(name)
	}
	answer, err := query()
	if err == nil {
		s.history.StoreAnswer(name, answer)
	}
	return answer, err
}

type setting struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Default  string `json:"default"`
	Any      bool   `json:"any"` // may be set while the process runs
	Expected string `json:"expected"`
	Help     string `json:"help"`
}

func (s *Server) settings(url.Values) (any, error) {
	return noted(s, "settings", s.process.settings)
}

func (p *Process) settings() ([]setting, error) {
	var text []byte
	err := p.Do(func(c *attach.Client) (err error) {
		text, err = c.Call("options")
		return err
	})
	if err != nil {
		return nil, err
	}
	all := []setting{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if f := strings.Split(line, "\t"); len(f) >= 6 {
			all = append(all, setting{f[0], f[1], f[2], f[3] == "any", f[4], f[5]})
		}
	}
	return all, nil
}

// mayChange returns nil if the page may change the process or affect how it runs.
func (s *Server) mayChange() error {
	if err := s.needProcess(); err != nil {
		return err
	}
	if !s.options.AllowSet {
		return problem{http.StatusForbidden, errors.New("read-only page: start `seemalloc web` with --allow-set to change the process, or to profile its CPU time")}
	}
	return nil
}

// command sends a command that changes something.
func (s *Server) command(name string, args ...string) (any, error) {
	if err := s.mayChange(); err != nil {
		return nil, err
	}
	var answer []byte
	err := s.process.Do(func(c *attach.Client) (err error) {
		answer, err = c.Call(name, args...)
		return err
	})
	return string(answer), err
}

func (s *Server) set(r *http.Request) (any, error) {
	var change struct{ Name, Value string }
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil || change.Name == "" || strings.ContainsAny(change.Name, " \n") {
		return nil, badRequest("expected {\"name\": …, \"value\": …}")
	}
	return s.command("set", change.Name, change.Value)
}

func (s *Server) purge(*http.Request) (any, error) { return s.command("purge") }
