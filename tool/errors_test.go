package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"seemalloc/tool/attach/fake"
)

// Every error message is one line that names the problem and the remedy.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shop := buildShop(t)
	good := shop.profileBytes(t)
	self := strconv.Itoa(os.Getpid())
	server := fake.Start(t, filepath.Join(dir, "socket"))
	server.Answers["profile"] = func([]string) string { return string(good[:len(good)/2]) }

	broken := write("broken", []byte("#!/no/such/interpreter\n"))
	if err := os.Chmod(broken, 0o755); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name   string
		args   []string
		status int
		texts  []string
	}{
		{"no such pid", []string{"top", "999999999"}, 1, []string{"999999999", "seemalloc ps"}},
		{"pid zero", []string{"stats", "0"}, 2, []string{"0"}},
		{"pid too large", []string{"stats", "99999999999999999999"}, 2, []string{"99999999999999999999"}},
		{"not on seemalloc", []string{"stats", self}, 1, []string{"pid " + self, "does not run on seemalloc", "seemalloc run"}},
		{"no such file", []string{"top", "nowhere.pb.gz"}, 1, []string{"nowhere.pb.gz", "no such file"}},
		{"a folder", []string{"top", dir}, 1, []string{dir, "folder"}},
		{"not a profile", []string{"top", write("text", []byte("hello, world\n"))}, 1, []string{"text", "not a profile"}},
		{"a program", []string{"top", "/proc/self/exe"}, 1, []string{"not a profile"}},
		{"empty", []string{"top", write("empty", nil)}, 1, []string{"empty", "not a profile"}},
		{"truncated", []string{"top", write("cut", good[:len(good)-40])}, 1, []string{"cut", "truncated", "again"}},
		{"truncated, compressed", []string{"top", write("cut.gz", compress(t, good)[:120])}, 1, []string{"cut.gz", "truncated"}},
		{"cut in the gzip header", []string{"top", write("cut2.gz", compress(t, good)[:5])}, 1, []string{"cut2.gz", "truncated"}},
		{"truncated on its way", []string{"top", "--socket", server.Path}, 1, []string{"truncated"}},
		{"no such socket", []string{"stats", "--socket", dir + "/none"}, 1, []string{"none", "no such socket", "seemalloc ps"}},
		{"unknown option", []string{"get", "--socket", server.Path, "colour"}, 1, []string{"colour"}},
		{"unwritable", []string{"profile", "--socket", server.Path, "--raw", "-o", "/nowhere/x"}, 1, []string{""}},
		{"library not found", []string{"run", "--", "true"}, 1, []string{"library not found", "/usr/lib", "--lib"}},
		{"library not there", []string{"run", "--lib", "/nowhere.so", "--", "true"}, 1, []string{"library not found", "/nowhere.so"}},
		{"value missing", []string{"top", write("noalloc", shop.withTypes(t, "cpu", "time")), "--by", "inuse"}, 1, []string{"no inuse_space values", "cpu, time", "--by"}},
		{"focus on nothing", []string{"top", write("good", good), "--focus", "nosuchfunction"}, 1, []string{"nosuchfunction"}},

		{"statistics of an older library", []string{"activity", "--socket", server.Path}, 1, []string{"older than this tool"}},
		{"trace of an older library", []string{"trace", "--socket", server.Path}, 1, []string{"older than this tool"}},
		{"activity of a process not on seemalloc", []string{"activity", self}, 1, []string{"does not run on seemalloc"}},
		{"activity without a library", []string{"activity", "--", "true"}, 1, []string{"library not found", "--lib"}},

		{"not a profile, to convert", []string{"convert", write("text2", []byte("hello\n")), "--to", "csv"}, 1, []string{"text2", "not a profile", "hello", "expected profile.proto"}},
		{"damaged text", []string{"top", write("je.heap", []byte("heap_v2/1\n@ 0x1\n t*: 1: 2\n"))}, 1, []string{"je.heap", "line 3", "t*: OBJECTS: BYTES"}},
		{"convert to what it cannot hold", []string{"convert", write("cpu", shop.withTypes(t, "samples", "cpu")), "--to", "dhat"}, 1, []string{"cpu: the format dhat", "samples, cpu", "--to"}},
		{"convert to nowhere", []string{"convert", write("good1", good), "-o", "/nowhere/x.csv"}, 1, []string{"/nowhere/x.csv", "no such"}},
		{"no such base", []string{"top", write("good2", good), "--base", "nowhere.pb"}, 1, []string{"nowhere.pb", "no such file"}},
		{"base of another kind", []string{"top", write("good3", good), "--base", write("cpu2", shop.withTypes(t, "samples", "cpu")), "--by", "inuse"}, 1, []string{"cpu2", "no inuse_space values"}},

		{"diff of two kinds", []string{"diff", write("good4", good), write("cpu3", shop.withTypes(t, "samples", "cpu"))}, 1, []string{"good4 has inuse_space", "cpu3 has cpu", "--by"}},
		{"diff of what is not there", []string{"diff", write("good5", good), "999999999"}, 1, []string{"999999999", "seemalloc ps"}},

		{"usage: diff of one", []string{"diff", "x"}, 2, []string{"which two", "process id"}},
		{"usage: diff's rows", []string{"diff", "x", "y", "-n", "-1"}, 2, []string{"-n -1", "0 or more"}},
		{"usage: tree's least", []string{"tree", "x", "--min", "101"}, 2, []string{"--min 101", "0 to 100"}},
		{"usage: tree's depth", []string{"tree", "x", "--depth", "-1"}, 2, []string{"--depth -1"}},
		{"usage: peek at nothing", []string{"peek", "x"}, 2, []string{"which function"}},
		{"usage: list's expression", []string{"list", "x", "("}, 2, []string{"(: not a regular expression"}},
		{"usage: convert to what", []string{"convert", "x"}, 2, []string{"which format", "--to proto|heap"}},
		{"usage: convert to something", []string{"convert", "x", "--to", "xml"}, 2, []string{"--to xml", "speedscope"}},
		{"usage: convert's extension", []string{"convert", "x", "-o", "x.txt"}, 2, []string{"-o x.txt", ".pb.gz", "--to"}},
		{"usage: convert nothing", []string{"convert", "--to", "csv"}, 2, []string{"which process or file"}},
		{"usage: convert a difference without names", []string{"convert", "x", "--base", "y", "--raw", "--to", "proto"}, 2, []string{"--raw", "requires names", "--base"}},
		{"usage: kind of a file", []string{"top", "x", "--kind", "peak"}, 2, []string{"--kind peak", "x is a file", "expected a process"}},
		{"usage: kind of two files", []string{"diff", "x", "y", "--kind", "peak"}, 2, []string{"--kind peak", "x is a file"}},
		{"usage: kind of a file to convert", []string{"convert", "x", "--kind", "peak", "--to", "csv"}, 2, []string{"--kind peak", "x is a file"}},
		{"usage: no folder of debug information", []string{"top", write("good2", good), "--debug-dir", "/nowhere"}, 2, []string{"--debug-dir /nowhere", "expected a folder"}},
		{"usage: no perf map", []string{"top", write("good3", good), "--perf-map", dir}, 2, []string{"--perf-map " + dir, "START BYTES NAME"}},
		{"usage: unknown command", []string{"tpo"}, 2, []string{`"tpo"`, "top", "--help"}},
		{"usage: unknown topic", []string{"help", "tpo"}, 2, []string{`"tpo"`}},
		{"usage: unknown flag", []string{"top", "1", "--colour"}, 2, []string{"--colour", "seemalloc top --help"}},
		{"usage: nothing to show", []string{"top"}, 2, []string{"process id", "file"}},
		{"usage: two files", []string{"top", "a", "b"}, 2, []string{"1 arg"}},
		{"doctor of an older library", []string{"doctor", "--socket", server.Path}, 1, []string{"older than this tool"}},
		{"doctor of a process not on seemalloc", []string{"doctor", self}, 1, []string{"does not run on seemalloc"}},
		{"doctor without a library", []string{"doctor", "--", "true"}, 1, []string{"library not found", "--lib"}},
		{"usage: doctor of nothing", []string{"doctor"}, 2, []string{"which process", "seemalloc ps"}},
		{"usage: doctor of both", []string{"doctor", self, "--", "true"}, 2, []string{self, "before --"}},
		{"usage: doctor's window", []string{"doctor", self, "--for", "1ms"}, 2, []string{"--for 1ms", "100ms"}},
		{"usage: doctor hides", []string{"doctor", self, "--hide", "("}, 2, []string{"--hide"}},
		{"usage: doctor's samples", []string{"doctor", "--sample", "many", "--", "true"}, 2, []string{"--sample many", "512K"}},
		{"usage: pid missing", []string{"stats"}, 2, []string{"seemalloc ps"}},
		{"usage: not a pid", []string{"stats", "redis"}, 2, []string{"redis", "process id"}},
		{"usage: unit", []string{"top", "x", "--unit", "miles"}, 2, []string{"miles", "bytes or objects"}},
		{"usage: sort", []string{"top", "x", "--sort", "name"}, 2, []string{"flat or cum"}},
		{"usage: names", []string{"top", "x", "--names", "long"}, 2, []string{"templates"}},
		{"usage: regular expression", []string{"top", "x", "--focus", "("}, 2, []string{"--focus"}},
		{"usage: assignment", []string{"set", self, "sample"}, 2, []string{"NAME=VALUE"}},
		{"usage: activity of nothing", []string{"activity"}, 2, []string{"which process", "seemalloc ps"}},
		{"usage: activity of no command", []string{"activity", "--"}, 2, []string{"which program"}},
		{"usage: activity of both", []string{"activity", self, "--", "true"}, 2, []string{self, "before --"}},
		{"usage: activity of a socket and a command", []string{"activity", "--socket", "x", "--", "true"}, 2, []string{"--socket"}},
		{"usage: interval", []string{"activity", self, "--interval", "1ms"}, 2, []string{"--interval 1ms", "10ms"}},
		{"usage: count", []string{"activity", self, "--count", "-1"}, 2, []string{"--count -1", "0 or more"}},
		{"usage: lines of a command", []string{"activity", "--count", "5", "--", "true"}, 2, []string{"--count", "until it ends", "expected a process"}},
		{"usage: activity options", []string{"activity", "--conf", "sample=1", "--", "true"}, 2, []string{"--conf", "name:value"}},
		{"usage: for", []string{"trace", self, "--for", "-1s"}, 2, []string{"--for -1s", "0 or more"}},
		{"usage: hide", []string{"trace", self, "--hide", "("}, 2, []string{"--hide"}},
		{"usage: nothing to run", []string{"run"}, 2, []string{"which program"}},
		{"usage: sample", []string{"run", "--sample", "lots", "--", "true"}, 2, []string{"--sample lots", "512K"}},
		{"usage: conf", []string{"run", "--conf", "sample", "--", "true"}, 2, []string{"name:value"}},
		{"usage: minimal", []string{"run", "--minimal", "--sample", "1", "--", "true"}, 2, []string{"--minimal"}},
		{"usage: nothing to compare", []string{"compare"}, 2, []string{"which program"}},
		{"usage: unknown allocator", []string{"compare", "--alloc", "glibc,gmalloc", "--", "true"}, 2, []string{`"gmalloc"`, "jemalloc, tcmalloc", "NAME=PATH"}},
		{"usage: no allocator", []string{"compare", "--alloc", "", "--", "true"}, 2, []string{"--alloc", "glibc,jemalloc"}},
		{"usage: allocator twice", []string{"compare", "--alloc", "glibc,glibc", "--", "true"}, 2, []string{"glibc is named twice"}},
		{"usage: allocator's file", []string{"compare", "--alloc", "x=/nowhere.so", "--", "true"}, 2, []string{"/nowhere.so", "no such file"}},
		{"usage: allocator's text", []string{"compare", "--alloc", "x=" + write("x.so", []byte("text")), "--", "true"}, 2, []string{"x.so", "not a shared library"}},
		{"usage: rounds", []string{"compare", "--rounds", "0", "--", "true"}, 2, []string{"--rounds 0", "1 to 1000"}},
		{"usage: for", []string{"compare", "--for", "-1s", "--", "true"}, 2, []string{"--for -1s", "30s"}},
		{"usage: for without a unit", []string{"compare", "--for", "30", "--", "true"}, 2, []string{"--for", "30"}},
		{"usage: load", []string{"compare", "--load", " ", "--", "true"}, 2, []string{"--load", "shell"}},
		{"usage: up without a load", []string{"compare", "--up-after", "1s", "--", "true"}, 2, []string{"--up-after", "--load"}},
		{"usage: no such program", []string{"compare", "--", "no-such-command"}, 2, []string{"no-such-command", "not found"}},
		{"usage: no such library", []string{"compare", "--lib", "/nowhere.so", "--", "true"}, 2, []string{"library not found", "/nowhere.so"}},
		{"usage: no interpreter", []string{"compare", "--alloc", "glibc", "--", broken}, 2, []string{"broken", "interpreter"}},
		{"compare: unwritable", []string{"compare", "--alloc", "glibc", "--keep-output", "/proc/x", "--", "true"}, 1, []string{"/proc/x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool(t, nil, test.args...).expectFailure(t, test.status, test.texts...)
		})
	}
}

// Another user's process, which only root can set up.
func TestPermission(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become someone else")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("needs setpriv")
	}
	serve(t)
	// The other user must be able to reach the tool.
	if err := os.Chmod(filepath.Dir(filepath.Dir(binary)), 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", binary, "top", strconv.Itoa(os.Getpid()))
	command.Dir = "/"
	var r result
	out, _ := command.Output()
	r.out, r.status = string(out), command.ProcessState.ExitCode()
	command = exec.Command(command.Args[0], command.Args[1:]...)
	command.Dir = "/"
	both, _ := command.CombinedOutput()
	r.err = string(both)
	r.expectFailure(t, 1, "belongs to root", "permission denied; run as root\n")
}
