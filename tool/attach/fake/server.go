// Package fake provides a control socket for tests. It implements the core's protocol without the core.
package fake

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"seemalloc/tool/attach"
)

// Stats are the statistics of an imaginary process. Their parts add up.
const Stats = `{"version":"0.1.0","pid":4242,"uptime_ms":61500,
"memory":{"rss":104857600,"live":73400320,"cached":10485760,"fragmentation":5242880,"metadata":2097152,"not_ours":13631488,
"mapped":134217728,"live_allocated":75497472,"dirty":1048576},
"sampling":{"interval":524288,"samples":1234,"live_samples":144,"dropped":2,"truncated":3,"broken":0,"stacks":17,"backed_off":5,
"estimate":75000000,"estimate_stderr":6250000},
"system":{"map_calls":12,"map_bytes":134217728,"unmap_calls":1,"unmap_bytes":4096,"purge_calls":7,"purge_bytes":7340032,
"remap_calls":4,"huge_page_calls":3,"refused_calls":0,"minor_faults":25600,"major_faults":1,"refault_runs":24,"refault_bytes":2097152,"refault_delayed_bytes":1572864,
"calls":[{"call":"madvise:dontneed","reason":"decay","calls":7,"bytes":7340032,"refused":0,"ns":70000}]},
"purge":{"mode":"balanced","delay_ms":2000,"purged_bytes":6291456,"postponed":0,"hole_refilled_bytes":8192},
"spans":{"owned":12,"owned_bytes":3145728,"free_clean_bytes":4194304},
"threads":{"heaps":9,"live":5},
"size_classes":[{"size":16,"spans":3,"live":1000,"cached":20,"free":4,"refills":3},{"size":32,"spans":0,"live":0,"cached":0,"free":0},
{"size":1024,"spans":40,"live":60000,"cached":100,"free":2000}],
"a_field_from_the_future":{"x":1}}`

// Server answers each command by its first word. A value that starts with "error" is sent as an error.
type Server struct {
	Path    string
	Answers map[string]func(args []string) string
	// Raw holds answers that are sent verbatim before the connection is closed, to imitate faulty servers.
	Raw map[string]string
}

// Start serves at path until the test ends.
func Start(t *testing.T, path string) *Server {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	options := map[string]string{"sample": "512K", "purge_delay": "auto"}
	s := &Server{Path: path, Raw: map[string]string{}, Answers: map[string]func([]string) string{
		"ping":    func([]string) string { return "pong" },
		"version": func([]string) string { return "seemalloc 0.1.0" },
		"stats":   func([]string) string { return Stats },
		"purge":   func([]string) string { return "1048576" },
		"options": func([]string) string {
			return "sample\t" + options["sample"] + "\t512K\tany\tbytes\tmean number of bytes\n" +
				"socket\t1\t1\tstart\tswitch\tserve the control socket\ndump_prefix\t\t\tany\ttext\tstart of names\n"
		},
		"get": func(args []string) string {
			if value, ok := options[args[0]]; ok {
				return value
			}
			return "error unknown option " + args[0]
		},
		"set": func(args []string) string {
			if _, ok := options[args[0]]; !ok {
				return "error unknown option " + args[0]
			}
			options[args[0]] = args[1]
			return ""
		},
	}}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// isOfTest reports whether the client is the test process or one of its descendants. It excludes the `seemalloc ps` of
// another test, which queries all processes.
func isOfTest(conn net.Conn) bool {
	pid := attach.PeerPID(conn.(*net.UnixConn))
	for pid > 1 && pid != os.Getpid() {
		pid = parent(pid)
	}
	return pid == os.Getpid()
}

// parent returns 0 if the process has ended.
func parent(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if number, ok := strings.CutPrefix(line, "PPid:"); ok {
			of, _ := strconv.Atoi(strings.TrimSpace(number))
			return of
		}
	}
	return 0
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	if !isOfTest(conn) {
		return
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		if raw, ok := s.Raw[words[0]]; ok {
			fmt.Fprint(conn, raw)
			return
		}
		answer := s.Answers[words[0]]
		if answer == nil {
			fmt.Fprintf(conn, "error unknown command %s\n", words[0])
			continue
		}
		text := answer(words[1:])
		if strings.HasPrefix(text, "error") {
			fmt.Fprintf(conn, "%s\n", text)
			continue
		}
		fmt.Fprintf(conn, "ok %d\n%s", len(text), text)
	}
}
