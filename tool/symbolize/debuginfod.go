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

// Debuginfod gets debug files by build id from the servers in DEBUGINFOD_URLS. It understands the variables of
// elfutils' client that bound it, and looks into that client's cache before it asks; what it gets itself is kept in
// ours. A server that does not answer is asked no second time. Nothing here fails: what went wrong is a note of one
// line, and names are missing. Safe for concurrent use. All methods may be called on nil, which asks nobody.
type Debuginfod struct {
	urls    []string
	client  *http.Client
	pause   time.Duration // within which leastProgress bytes must come
	longest time.Duration // for all files of one command
	most    int64         // bytes of one file
	folder  *diskcache.Folder
	say     func(string) // is told that a file is being downloaded: that may take a while

	mutex sync.Mutex
	began time.Time       // of the first request
	down  map[string]bool // servers that are not asked any more
	notes []string
}

// The defaults, where the variables say nothing. elfutils' client waits for 90 seconds, and without an end as long as
// something comes; a report should not.
const (
	defaultPause   = 10 * time.Second
	defaultLongest = 5 * time.Minute
	leastProgress  = 100 << 10 // as documented for DEBUGINFOD_TIMEOUT
	connectTimeout = 5 * time.Second
	// How long a server's "not found" is believed: the same as in elfutils' client.
	absentFor = 10 * time.Minute
	// Downloads above this are announced.
	announceBytes = 1 << 20
	// What is kept of downloads.
	debugCacheBytes = 4 << 30
)

// NewDebuginfod reads the variables; nil when DEBUGINFOD_URLS is unset or empty. say, if any, is told of downloads.
func NewDebuginfod(say func(string)) *Debuginfod {
	d := &Debuginfod{say: say, down: map[string]bool{}, folder: diskcache.Open("debug", debugCacheBytes)}
	for _, word := range strings.Fields(os.Getenv("DEBUGINFOD_URLS")) {
		if strings.HasPrefix(word, "ima:") {
			continue // a policy about signatures, for elfutils
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
	d.pause = time.Duration(d.number("DEBUGINFOD_TIMEOUT", "seconds", int64(defaultPause/time.Second))) * time.Second
	d.longest = time.Duration(d.number("DEBUGINFOD_MAXTIME", "seconds", int64(defaultLongest/time.Second))) * time.Second
	d.most = d.number("DEBUGINFOD_MAXSIZE", "bytes", debugCacheBytes)
	d.client = &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: min(connectTimeout, d.pause)}).DialContext,
		TLSHandshakeTimeout:   min(connectTimeout, d.pause),
		ResponseHeaderTimeout: d.pause, // a server may have to unpack a file first
	}}
	return d
}

// number reads a variable with a positive number.
func (d *Debuginfod) number(name, unit string, preset int64) int64 {
	text := os.Getenv(name)
	if text == "" || text == "0" {
		return preset
	}
	const most = 1 << 40
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > most {
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

// Notes returns what went wrong since the last call, and forgets it.
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

// clientCaches are the places where elfutils' client, which gdb uses too, keeps what it has got.
func clientCaches(id string) []string {
	if folder := os.Getenv("DEBUGINFOD_CACHE_PATH"); folder != "" {
		return []string{filepath.Join(folder, id, "debuginfo")}
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

// find returns the debug file with that build id, nil when it cannot be had. what is its name for people.
func (d *Debuginfod) find(id, what string) *object {
	if !isBuildID(id) {
		return nil
	}
	folder := diskcache.Open("debug", debugCacheBytes) // without a server, too: it was there last time
	if o := openWithID(folder.Path(id), id); o != nil {
		return o
	}
	if d == nil || len(d.urls) == 0 {
		return nil
	}
	if age, absent := d.folder.Age(id + absentSuffix); absent && age >= 0 && age < absentFor {
		return nil
	}
	everywhereAbsent := true
	for _, server := range d.urls {
		switch path, err := d.get(server, id, what); {
		case err == nil:
			if o := openWithID(path, id); o != nil {
				return o
			}
			d.folder.Remove(id)
			d.note("%s: what it sent for build id %s is another file", server, id)
			everywhereAbsent = false
		case !errors.Is(err, errAbsent):
			everywhereAbsent = false
		}
	}
	if everywhereAbsent {
		_ = d.folder.Write(id+absentSuffix, nil)
	}
	return nil
}

const absentSuffix = ".absent"

// isBuildID guards paths and addresses that are made of a build id, which a profile may bring from anywhere.
func isBuildID(id string) bool {
	const least, most = 8, 128
	return len(id) >= least && len(id) <= most && strings.Trim(id, "0123456789abcdef") == ""
}

var (
	errAbsent = errors.New("not found")
	errDown   = errors.New("does not answer")
)

// get downloads a file into the cache and returns its path. Whatever goes wrong but errAbsent has been noted.
func (d *Debuginfod) get(server, id, what string) (string, error) {
	left, ok := d.timeLeft(server)
	if !ok {
		return "", errDown
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), left,
		fmt.Errorf("no end after %v (DEBUGINFOD_MAXTIME)", d.longest))
	defer cancel()
	path, err := d.download(ctx, server, id, what)
	var own noteError
	switch {
	case err == nil, errors.Is(err, errAbsent):
	case errors.As(err, &own): // this file only
		d.note("%s: %v", server, err)
	default:
		d.shun(server, reason(ctx, err, d.pause))
	}
	return path, err
}

// noteError is about one file; the server is well.
type noteError struct{ error }

// timeLeft is how long a request may take; false when the server is not to be asked any more.
func (d *Debuginfod) timeLeft(server string) (time.Duration, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.began.IsZero() {
		d.began = time.Now()
	}
	left := d.longest - time.Since(d.began)
	return left, left > 0 && !d.down[server]
}

// shun notes that a server does not work, once.
func (d *Debuginfod) shun(server, why string) {
	d.mutex.Lock()
	known := d.down[server]
	d.down[server] = true
	d.mutex.Unlock()
	if !known {
		d.note("%s: %s; names from there are missing", server, why)
	}
}

// reason says in a few words why a request failed.
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
	if told, err := strconv.ParseInt(answer.Header.Get("X-Debuginfod-Size"), 10, 64); err == nil {
		size = max(size, told)
	}
	if size > d.most {
		return "", noteError{fmt.Errorf("the debug information of %s has %d bytes, more than the %d that DEBUGINFOD_MAXSIZE allows", what, size, d.most)}
	}
	if d.say != nil && size > announceBytes {
		d.say(fmt.Sprintf("getting the debug information of %s from %s (%.1f MiB)", what, server, float64(size)/(1<<20)))
	}
	file, err := d.folder.Create(id)
	if err != nil {
		return "", noteError{fmt.Errorf("the debug information of %s cannot be kept: %v", what, err)}
	}
	if err := d.copy(ctx, cancel, file, answer.Body); err != nil {
		file.Abandon()
		return "", err
	}
	path, err := file.Commit()
	if err != nil {
		return "", noteError{fmt.Errorf("the debug information of %s cannot be kept: %v", what, err)}
	}
	return path, nil
}

// copy takes a body in, as long as it comes fast enough.
func (d *Debuginfod) copy(ctx context.Context, cancel context.CancelCauseFunc, file *diskcache.File, body io.Reader) error {
	slow := fmt.Errorf("less than %d KiB within %v (DEBUGINFOD_TIMEOUT)", leastProgress>>10, d.pause)
	timer := time.AfterFunc(d.pause, func() { cancel(slow) })
	defer timer.Stop()
	buffer := make([]byte, 64<<10)
	progress, total := 0, int64(0)
	for {
		n, err := body.Read(buffer)
		if total += int64(n); total > d.most {
			return noteError{fmt.Errorf("a file of more than the %d bytes that DEBUGINFOD_MAXSIZE allows", d.most)}
		}
		if _, writeErr := file.Write(buffer[:n]); writeErr != nil {
			return noteError{fmt.Errorf("what it sends cannot be kept: %v", writeErr)}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return withCause(ctx, err)
		}
		if progress += n; progress >= leastProgress {
			progress = 0
			timer.Reset(d.pause)
		}
	}
}

// withCause is err, or why we ourselves gave up.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
