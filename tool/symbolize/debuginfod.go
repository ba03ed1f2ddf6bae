package symbolize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"seemalloc/tool/diskcache"
)

// Debuginfod fetches debug files by build id from the servers in DEBUGINFOD_URLS. It honours the limits in the
// environment variables of elfutils' client, and searches that client's cache before it sends a request. Its own
// downloads are stored in our cache. A server that does not answer is not contacted again. Nothing here fails: problems
// become notes of one line, and symbols are missing. Safe for concurrent use. All methods may be called on nil, which
// contacts no server.
type Debuginfod struct {
	urls        []string
	client      *http.Client
	idleTimeout time.Duration // period within which at least minProgress bytes must arrive
	maxTime     time.Duration // for all files of one command
	maxBytes    int64         // maximum bytes of one file
	cache       *diskcache.Cache
	notify      func(string) // is called when a download starts that may take a while

	mutex sync.Mutex
	began time.Time       // time of the first request
	down  map[string]bool // servers that are not contacted any more
	notes []string
}

// The defaults if the variables are unset. elfutils' client waits for 90 seconds, and without limit as long as data
// arrives. A report should not.
const (
	defaultPause   = 10 * time.Second
	defaultMaxTime = 5 * time.Minute
	minProgress    = 100 << 10 // as documented for DEBUGINFOD_TIMEOUT
	connectTimeout = 5 * time.Second
	// How long a server's "not found" is valid: the same time as in elfutils' client.
	absentFor = 10 * time.Minute
	// Downloads above this size are announced.
	announceBytes = 1 << 20
	// Maximum size of the cache of downloads.
	debugCacheBytes = 4 << 30
)

// NewDebuginfod reads the variables. It returns nil if DEBUGINFOD_URLS is unset or empty. say, if not nil, is called
// for each announced download.
func NewDebuginfod(notify func(string)) *Debuginfod {
	d := &Debuginfod{notify: notify, down: map[string]bool{}, cache: diskcache.Open("debug", debugCacheBytes)}
	for _, word := range strings.Fields(os.Getenv("DEBUGINFOD_URLS")) {
		if strings.HasPrefix(word, "ima:") {
			continue // a signature policy for elfutils
		}
		if u, err := url.Parse(word); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			d.note("DEBUGINFOD_URLS: %q is not a server: expected http://… or https://…", word)
			continue
		}
		d.urls = append(d.urls, strings.TrimRight(word, "/"))
	}
	if len(d.urls) == 0 && len(d.notes) == 0 {
		return nil
	}
	d.idleTimeout = time.Duration(d.number("DEBUGINFOD_TIMEOUT", "seconds", int64(defaultPause/time.Second))) * time.Second
	d.maxTime = time.Duration(d.number("DEBUGINFOD_MAXTIME", "seconds", int64(defaultMaxTime/time.Second))) * time.Second
	d.maxBytes = d.number("DEBUGINFOD_MAXSIZE", "bytes", debugCacheBytes)
	d.client = &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: min(connectTimeout, d.idleTimeout)}).DialContext,
		TLSHandshakeTimeout:   min(connectTimeout, d.idleTimeout),
		ResponseHeaderTimeout: d.idleTimeout, // a server may have to unpack a file first
	}}
	return d
}

// number reads a variable that holds a positive number.
func (d *Debuginfod) number(name, unit string, preset int64) int64 {
	text := os.Getenv(name)
	if text == "" || text == "0" {
		return preset
	}
	const limit = 1 << 40
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > limit {
		d.note("%s=%q: expected a number of %s; %d is used", name, text, unit, preset)
		return preset
	}
	return n
}

func (d *Debuginfod) note(format string, args ...any) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// Notes returns the problems since the last call and clears them.
func (d *Debuginfod) Notes() []string {
	if d == nil {
		return nil
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	notes := d.notes
	d.notes = nil
	return notes
}

// clientCaches returns the cache paths of elfutils' client, which gdb uses too.
func clientCaches(id string) []string {
	if dir := os.Getenv("DEBUGINFOD_CACHE_PATH"); dir != "" {
		return []string{filepath.Join(dir, id, "debuginfo")}
	}
	var paths []string
	if cache, err := os.UserCacheDir(); err == nil {
		paths = append(paths, filepath.Join(cache, "debuginfod_client", id, "debuginfo"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, ".debuginfod_client_cache", id, "debuginfo"))
	}
	return paths
}

// find returns the debug file with that build id, or nil if it is not available. what is its name in messages.
func (d *Debuginfod) find(id, what string) *object {
	if !isBuildID(id) {
		return nil
	}
	dir := diskcache.Open("debug", debugCacheBytes) // without a server too: it may have been downloaded earlier
	if o := openWithID(dir.Path(id), id); o != nil {
		return o
	}
	if d == nil || len(d.urls) == 0 {
		return nil
	}
	if age, absent := d.cache.Age(id + absentSuffix); absent && age >= 0 && age < absentFor {
		return nil
	}
	everywhereAbsent := true
	for _, server := range d.urls {
		switch path, err := d.get(server, id, what); {
		case err == nil:
			if o := openWithID(path, id); o != nil {
				return o
			}
			d.cache.Remove(id)
			d.note("%s: it sent a different file for build id %s", server, id)
			everywhereAbsent = false
		case !errors.Is(err, errAbsent):
			everywhereAbsent = false
		}
	}
	if everywhereAbsent {
		_ = d.cache.Write(id+absentSuffix, nil)
	}
	return nil
}

const absentSuffix = ".absent"

// isBuildID validates a build id before it becomes part of a path or URL. The id may come from an untrusted profile.
func isBuildID(id string) bool {
	const minimum, limit = 8, 128
	return len(id) >= minimum && len(id) <= limit && strings.Trim(id, "0123456789abcdef") == ""
}

var (
	errAbsent = errors.New("not found")
	errDown   = errors.New("does not answer")
)

// get downloads a file into the cache and returns its path. All errors except errAbsent have been noted.
func (d *Debuginfod) get(server, id, what string) (string, error) {
	left, ok := d.timeLeft(server)
	if !ok {
		return "", errDown
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), left,
		fmt.Errorf("no end after %v (DEBUGINFOD_MAXTIME)", d.maxTime))
	defer cancel()
	path, err := d.download(ctx, server, id, what)
	var own noteError
	switch {
	case err == nil, errors.Is(err, errAbsent):
	case errors.As(err, &own): // concerns only this file
		d.note("%s: %v", server, err)
	default:
		d.markDown(server, reason(ctx, err, d.idleTimeout))
	}
	return path, err
}

// noteError is an error with one file. The server works.
type noteError struct{ error }

// timeLeft returns the time that a request may take. ok is false if the server must not be contacted any more.
func (d *Debuginfod) timeLeft(server string) (time.Duration, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.began.IsZero() {
		d.began = time.Now()
	}
	left := d.maxTime - time.Since(d.began)
	return left, left > 0 && !d.down[server]
}

// markDown notes once that a server does not work.
func (d *Debuginfod) markDown(server, why string) {
	d.mutex.Lock()
	known := d.down[server]
	d.down[server] = true
	d.mutex.Unlock()
	if !known {
		d.note("%s: %s; its symbols are missing", server, why)
	}
}

// reason explains briefly why a request failed.
func reason(ctx context.Context, err error, pause time.Duration) string {
	var network net.Error
	var dns *net.DNSError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx).Error()
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "cannot be reached"
	case errors.As(err, &network) && network.Timeout():
		return fmt.Sprintf("no answer within %v (DEBUGINFOD_TIMEOUT)", pause)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "broke off"
	}
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

func (d *Debuginfod) download(ctx context.Context, server, id, what string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/buildid/"+id+"/debuginfo", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("User-Agent", "seemalloc")
	answer, err := d.client.Do(request)
	if err != nil {
		return "", withCause(ctx, err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", errAbsent
	default:
		return "", fmt.Errorf("answers %s", answer.Status)
	}
	size := answer.ContentLength
	if reported, err := strconv.ParseInt(answer.Header.Get("X-Debuginfod-Size"), 10, 64); err == nil {
		size = max(size, reported)
	}
	if size > d.maxBytes {
		return "", noteError{fmt.Errorf("the debug information of %s has %d bytes, more than the %d that DEBUGINFOD_MAXSIZE allows", what, size, d.maxBytes)}
	}
	if d.notify != nil && size > announceBytes {
		d.notify(fmt.Sprintf("getting the debug information of %s from %s (%.1f MiB)", what, server, float64(size)/(1<<20)))
	}
	file, err := d.cache.Create(id)
	if err != nil {
		return "", noteError{fmt.Errorf("the debug information of %s cannot be stored: %v", what, err)}
	}
	if err := d.copy(ctx, cancel, file, answer.Body); err != nil {
		file.Abandon()
		return "", err
	}
	path, err := file.Commit()
	if err != nil {
		return "", noteError{fmt.Errorf("the debug information of %s cannot be stored: %v", what, err)}
	}
	return path, nil
}

// copy stores a body in file, as long as it arrives fast enough.
func (d *Debuginfod) copy(ctx context.Context, cancel context.CancelCauseFunc, file *diskcache.File, body io.Reader) error {
	slow := fmt.Errorf("less than %d KiB within %v (DEBUGINFOD_TIMEOUT)", minProgress>>10, d.idleTimeout)
	timer := time.AfterFunc(d.idleTimeout, func() { cancel(slow) })
	defer timer.Stop()
	buffer := make([]byte, 64<<10)
	progress, total := 0, int64(0)
	for {
		n, err := body.Read(buffer)
		if total += int64(n); total > d.maxBytes {
			return noteError{fmt.Errorf("a file of more than the %d bytes that DEBUGINFOD_MAXSIZE allows", d.maxBytes)}
		}
		if _, writeErr := file.Write(buffer[:n]); writeErr != nil {
			return noteError{fmt.Errorf("its answer cannot be stored: %v", writeErr)}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return withCause(ctx, err)
		}
		if progress += n; progress >= minProgress {
			progress = 0
			timer.Reset(d.idleTimeout)
		}
	}
}

// withCause returns the reason why we cancelled the request, or else err.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
