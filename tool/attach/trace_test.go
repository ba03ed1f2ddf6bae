package attach_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"seemalloc/tool/attach"
	"seemalloc/tool/attach/fake"
)

// dialTrace connects to a fake process that gives these answers to successive `trace read` commands.
func dialTrace(t *testing.T, answers ...string) (*attach.Client, *[]string) {
	t.Helper()
	server := fake.Start(t, filepath.Join(t.TempDir(), "s"))
	var asked []string
	server.Answers["trace"] = func(args []string) string {
		asked = append(asked, strings.Join(args, " "))
		switch {
		case args[0] == "start":
			return "7"
		case args[0] == "stop":
			return ""
		case len(answers) == 0:
			return "error this trace has ended: it was not read for 5 s"
		}
		answer := answers[0]
		answers = answers[1:]
		return answer
	}
	client, err := attach.DialSocket(server.Path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, &asked
}

func TestTraceReadsEvents(t *testing.T) {
	client, asked := dialTrace(t,
		"100 mmap growth 2097152 7000 12 4096 0 0x10,0xff\nlost 0 dropped 0 more 1\n",
		"200 madvise:dontneed decay 8192 900 13 - 1 -\nlost 3 dropped 2 more 0\n",
		"lost 3 dropped 2 more 0\n")
	trace, err := attach.StartTrace(client)
	if err != nil {
		t.Fatal(err)
	}
	events, err := trace.Read()
	want := []attach.Event{
		{TimeNS: 100, Call: "mmap", Reason: "growth", Bytes: 2097152, NS: 7000, Thread: 12, SizeClass: 4096, Stack: []uint64{0x10, 0xff}},
		{TimeNS: 200, Call: "madvise:dontneed", Reason: "decay", Bytes: 8192, NS: 900, Thread: 13, Refused: true},
	}
	if err != nil || !reflect.DeepEqual(events, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, events, want)
	}
	if trace.Lost != 3 || trace.Dropped != 2 {
		t.Errorf("lost %d, dropped %d", trace.Lost, trace.Dropped)
	}
	if events, err := trace.Read(); err != nil || len(events) != 0 {
		t.Errorf("%v %v", events, err)
	}
	if err := trace.Stop(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(*asked, ", "); got != "start, read 7, read 7, read 7, stop 7" {
		t.Errorf("asked %s", got)
	}
	if _, err := trace.Read(); err == nil || !strings.Contains(err.Error(), "not read for 5 s") {
		t.Errorf("got %v", err)
	}
}

func TestTraceWithUnknownFields(t *testing.T) {
	for _, answer := range []string{
		"", "what is this\n", "100 mmap growth 1 2 3 - 0 0x10\n", "100 mmap growth 1 2 3 - 0 zz\nlost 0 dropped 0 more 0\n", "[1,2]\nlost 0 dropped 0 more 0\n",
	} {
		client, _ := dialTrace(t, answer)
		trace, err := attach.StartTrace(client)
		if err != nil {
			t.Fatal(err)
		}
		_, err = trace.Read()
		if err == nil || !strings.Contains(err.Error(), "different versions") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", answer, err)
		}
	}
}

// Additional fields after the known ones come from a newer library.
func TestTraceIgnoresFurtherFields(t *testing.T) {
	client, _ := dialTrace(t, "100 mmap growth 1 2 3 - 0 - more to come\nlost 0 dropped 0 more 0\n")
	trace, err := attach.StartTrace(client)
	if err != nil {
		t.Fatal(err)
	}
	if events, err := trace.Read(); err != nil || len(events) != 1 {
		t.Errorf("%v %v", events, err)
	}
}

func TestCalls(t *testing.T) {
	before := attach.Calls{{"mmap", "growth", 2, 200, 1, 20}, {"madvise:dontneed", "decay", 3, 30, 0, 7}}
	after := attach.Calls{{"mmap", "growth", 5, 500, 1, 50}, {"mmap", "report", 9, 900, 0, 90}, {"madvise:dontneed", "decay", 3, 30, 0, 7},
		{"madvise:free", "hole", 1, 10, 1, 5}}
	difference := after.Minus(before)
	if want := (attach.Calls{{"mmap", "growth", 3, 300, 0, 30}, {"mmap", "report", 9, 900, 0, 90}, {"madvise:free", "hole", 1, 10, 1, 5}}); !reflect.DeepEqual(difference, want) {
		t.Errorf("difference %v", difference)
	}
	if sum := difference.Sum("mmap"); sum.Calls != 3 || sum.Bytes != 300 {
		t.Errorf("mmap %+v", sum)
	}
	if sum := after.Sum("madvise"); sum.Calls != 4 || sum.Bytes != 40 || sum.Refused != 1 || sum.NS != 12 {
		t.Errorf("madvise %+v", sum)
	}
	if sum := after.Sum(""); sum.Calls != 9 {
		t.Errorf("all %+v", sum)
	}
	if sum := before.Plus(after).Sum(""); sum.Calls != 14 || sum.NS != 89 {
		t.Errorf("both %+v", sum)
	}
	if before[0].Calls != 2 {
		t.Error("Plus has changed what it was given")
	}
	if rest := after.WithoutReport(); len(rest) != 3 {
		t.Errorf("without report %v", rest)
	}
}
